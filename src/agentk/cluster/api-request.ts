export interface ApiRequest {
  readonly method: string
  /** encoded, with the query; the server's base path is put before it */
  readonly path: string
  /** name, value, name, value; Authorization is ours to add */
  readonly headers: readonly string[]
  /** undefined: no body */
  readonly body?: AsyncIterable<Uint8Array> | Buffer
}

/** Called as the answer comes; `onError` or `onEnd` is the last, once. */
export interface ApiResponseHandler {
  /** @param rawHeaders - name, value, name, value */
  onHead(statusCode: number, statusText: string, rawHeaders: Buffer[]): void
  onData(chunk: Buffer): void
  onEnd(): void
  onError(error: unknown): void
}
