# For systems without Debian's or Ubuntu's packages:
#
#   docker build -t kv-cache-book .
#   docker run --rm -it kv-cache-book              the story and the table: make run
#   docker run --rm -it kv-cache-book make test    every test
#   docker run --rm -it kv-cache-book bash         a shell, to read and to try things
#
# podman takes the same words.
FROM debian:12

RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git make
WORKDIR /kv-cache-book

# In a layer of its own: it is made again only when the set-up changes.
COPY tools/setup.sh tools/
RUN tools/setup.sh && rm -rf /root/.cache/pip

COPY . .
RUN make build/build.ninja && cmake --build --preset default

CMD ["make", "run"]
