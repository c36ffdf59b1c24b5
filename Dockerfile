# The dashboard: docs/docker.md.
FROM python:3.13-slim AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY .streamlit .streamlit
COPY board board
COPY exporters exporters
COPY rollout_board rollout_board
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(echo /wheels/*.whl)[board]"
# Also for a user that `docker run --user` names, so that logs of one's own can be read.
RUN useradd --uid 1000 --create-home board && install -d -m 1777 /cache /logs
USER 1000
ENV ROLLOUT_BOARD_CACHE=/cache
VOLUME /cache
WORKDIR /logs
EXPOSE 8501
HEALTHCHECK --start-period=30s --timeout=5s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=4)"]
ENTRYPOINT ["rollout-board"]
CMD ["serve", "/logs", "--host", "0.0.0.0", "--port", "8501", "--no-browser"]
