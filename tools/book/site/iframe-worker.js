// Browsers refuse workers to a page opened from file://. There, search's worker runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      this.ready = new Promise((resolve) => frame.addEventListener("load", () => resolve(frame.contentWindow)));
      window.addEventListener("message", (event) => {
        if (event.source === frame.contentWindow) this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      });
      const script = new URL(url, location).href.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
      frame.srcdoc =
        "<script>postMessage = (data) => parent.postMessage(data, '*'); importScripts = () => {};</script>" +
        `<script src="${script}"></script>`;
      document.documentElement.append(frame);
    }

    postMessage(data) {
      this.ready.then((frame) => frame.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
