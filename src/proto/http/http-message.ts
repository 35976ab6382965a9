/** HTTP inside a gRPC stream (doc/reference/tunnel-protocol.md 1.3 and 1.4). */

/** Names in Go's canonical form; values in order, each character a byte, as in node:http. */
export type Headers = [name: string, values: string[]][]

export interface Impersonation {
  readonly username: string
  readonly groups: readonly string[]
  readonly uid: string
  readonly extra: readonly { readonly key: string; readonly val: readonly string[] }[]
}

export interface HttpRequestHeader {
  readonly method: string
  /** decoded */
  readonly urlPath: string
  /** decoded */
  readonly query: [name: string, values: string[]][]
  /** as written; absent: `query`, encoded as Go does */
  readonly rawQuery?: string
  readonly header: Headers
  /** 0: no body; -1 or absent: unknown */
  readonly contentLength?: number
  readonly impersonation?: Impersonation | undefined
}

/** Request of an agent to one of GitLab's modules (doc/reference/tunnel-protocol.md 1.8). */
export interface ModuleRequestHeader extends Omit<HttpRequestHeader, 'impersonation' | 'rawQuery'> {
  readonly moduleName: string
}

export interface HttpResponseHeader {
  readonly statusCode: number
  /** for example "200 OK" */
  readonly status: string
  readonly header: Headers
}

export type HttpMessage<Header> =
  | { readonly kind: 'header'; readonly header: Header }
  | { readonly kind: 'data'; readonly data: Uint8Array }
  | { readonly kind: 'trailer' }
  | { readonly kind: 'upgradeData'; readonly data: Uint8Array }
export type HttpRequestMessage = HttpMessage<HttpRequestHeader>
export type HttpResponseMessage = HttpMessage<HttpResponseHeader>
