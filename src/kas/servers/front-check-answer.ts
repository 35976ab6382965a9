/** Path, below the prefix, where `kas doctor` tests what a front forwards. */
export const frontCheckPath = '/front-check'
/** Subprotocol of its WebSocket, which sends each message back. */
export const frontCheckProtocol = 'front-check.kas'
/** `Authorization: Bearer front:INSTANCE`, with the id of any replica of this kas. Strangers do not know these ids. */
export const frontCheckScheme = 'Bearer front:'
/** Words of kas if no replica has the id. */
export const unknownInstance = 'no replica of this kas has the id that kas doctor has sent'

/** Answer to `kas doctor`: how its request arrived. */
export interface FrontCheckAnswer {
  /** the trusted client address; undefined: the request came on a Unix socket */
  readonly client: string | undefined
  /** remote address of the connection: the front's, if there is one */
  readonly sender: string | undefined
  /** `sender` is trusted to name the client of a request */
  readonly isTrusted: boolean
  /** the request had an X-Forwarded-For header */
  readonly isForwarded: boolean
  /** length of the request's body */
  readonly bytes: number
}
