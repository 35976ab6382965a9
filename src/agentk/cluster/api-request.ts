export interface ApiRequest {
  readonly method: string
  /** encoded, with the query; without the server's base path */
  readonly path: string
  /** name, value, name, value; ApiClient adds Authorization */
  readonly headers: readonly string[]
  /** undefined: no body */
  readonly body?: AsyncIterable<Uint8Array> | Buffer
}

/** Callbacks for the answer; `onError` or `onEnd` is the last, once. */
export interface ApiResponseHandler {
  /** @param rawHeaders - name, value, name, value */
  onHead(statusCode: number, statusText: string, rawHeaders: Buffer[]): void
  onData(chunk: Buffer): void
  onEnd(): void
  onError(error: unknown): void
}
