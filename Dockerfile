# The base is an argument so that a build without a registry can substitute another; the digest is that of the
# multi-platform index. Dependabot updates tag and digest together.
ARG PYTHON_IMAGE=docker.io/library/python:3.12.15-slim-bookworm@sha256:54c85f3c47607a77f32adec749d3c81d1348bf25833671f512b26a9b6d778cb3

FROM ${PYTHON_IMAGE} AS build
WORKDIR /source
# Only packages pinned by hash are downloaded. Wheels only: nothing is compiled, so neither stage needs a compiler. uv
# creates the environments of users' systems.
COPY requirements/image.txt requirements/
RUN python3 -m venv /opt/wheelwright \
 && /opt/wheelwright/bin/pip wheel --quiet --no-cache-dir --disable-pip-version-check --wheel-dir /wheels \
      --require-hashes --no-deps --only-binary :all: --requirement requirements/image.txt \
 && /opt/wheelwright/bin/pip install --quiet --no-cache-dir --disable-pip-version-check --no-index --find-links /wheels hatchling
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /opt/wheelwright/bin/pip wheel --quiet --no-cache-dir --disable-pip-version-check --wheel-dir /wheels \
      --no-index --no-deps --no-build-isolation . \
 && python3 -m venv /opt/ragstone \
 && /opt/ragstone/bin/pip install --quiet --no-cache-dir --disable-pip-version-check --no-index --find-links /wheels "ragstone[bedrock]" uv \
 && /opt/ragstone/bin/pip uninstall --quiet --yes --disable-pip-version-check pip setuptools \
 # Tests, headers and stubs are for developers of these packages; only a small part of scipy is ever imported, which needs
 # neither its readers of files nor its signals. botocore does not sign or send Bedrock's requests: of the AWS service
 # descriptions, it only needs those for signing in.
 && find /opt/ragstone -path '*/site-packages/*' \( -type d \( -name tests -o -name test \) \
      -o -path '*/scipy/*' -name __pycache__ -o -path '*/site-packages/scipy/io' -o -path '*/site-packages/scipy/signal' \
      -o -name '*.pyi' -o -name '*.pxd' -o -name '*.pyx' -o -name '*.h' -o -name '*.a' \
      -o -type d -path '*/botocore/data/*' ! -path '*/botocore/data/sts*' ! -path '*/botocore/data/sso*' \) \
      -prune -exec rm -rf {} +

FROM ${PYTHON_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Ragstone" \
      org.opencontainers.image.description="A CI/CD quality gate for RAG systems" \
      org.opencontainers.image.source="https://github.com/ragstone/ragstone" \
      org.opencontainers.image.documentation="https://github.com/ragstone/ragstone/blob/main/docs/github-action.md" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# git is for users' requirements; its Perl parts (send-email, svn) and its servers are not needed. The checkout does not
# belong to root, and GitHub sets HOME, so git trusts the checkout at system scope.
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends ca-certificates git >/dev/null \
 && dpkg --purge --force-depends perl liberror-perl $(dpkg-query --show --showformat '${Package} ' 'perl-modules-*' 'libperl5*') >/dev/null \
 && for name in daemon http-backend http-fetch http-push imap-send shell; do rm -f /usr/lib/git-core/git-$name /usr/bin/git-$name; done \
 && rm -f /usr/bin/scalar /usr/lib/git-core/scalar \
 && ln -sf ../../bin/git /usr/lib/git-core/git \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* /var/log/* \
 && git config --system --add safe.directory '*' \
 # No program needs to change users; the gate does that itself.
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
COPY --from=build /opt/ragstone /opt/ragstone
RUN ln -s /opt/ragstone/bin/uv /usr/local/bin/uv
ENV LANG=C.UTF-8 PYTHONUNBUFFERED=1
# Starts as root: the gate reads secrets that the user's system must not, and runs that system as another user.
# Exec form, because a shell would drop inputs with dashes in their names; -I keeps the workspace off the import path.
ENTRYPOINT ["/opt/ragstone/bin/python", "-I", "-m", "ragstone.action"]
