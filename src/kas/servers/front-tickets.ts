import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'

/** Path, below the prefix, where `kas doctor` tests what a front forwards. */
export const frontCheckPath = '/front-check'
/** Subprotocol of its WebSocket, which sends each message back. */
export const frontCheckProtocol = 'front-check.kas'
/** `Authorization: Bearer front:TICKET` */
export const frontTicketScheme = 'Bearer front:'

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

/** Long enough to be used at another replica, whose clock may differ. ms */
const ticketLifeMs = 120_000
const keyLabel = 'gitlab-kas front check 1'

/**
 * Issues tickets that admit `kas doctor` to the check of a front, and to nothing else. A replica issues them on its
 * Unix socket, and every replica with the same secret accepts them.
 */
export class FrontTickets {
  readonly #key: Uint8Array
  /** keys whose tickets are accepted: the current one, and during a change of the secret also the previous one */
  readonly #taken: readonly Uint8Array[]

  /**
   * @param secret - secret that the replicas share; absent: a random one
   * @param previous - previous secret, which some replicas may still use
   */
  constructor(secret: Uint8Array = randomBytes(32), previous?: Uint8Array) {
    this.#key = keyOf(secret)
    this.#taken = previous === undefined ? [this.#key] : [this.#key, keyOf(previous)]
  }

  /** @param now - ms since 1970 */
  make(now: number): string {
    const expiry = String(now + ticketLifeMs)
    return `${expiry}.${sign(this.#key, expiry).toString('base64url')}`
  }

  isValid(ticket: string, now: number): boolean {
    const [, expiry, signature] = /^(\d{1,15})\.([\w-]{43})$/.exec(ticket) ?? []
    if (expiry === undefined || signature === undefined) return false
    const given = Buffer.from(signature, 'base64url')
    // each key is compared, so that the time does not show which one signed
    const equal = this.#taken.map((key) => timingSafeEqual(sign(key, expiry), given))
    return equal.includes(true) && Number(expiry) > now && Number(expiry) <= now + 2 * ticketLifeMs
  }
}

const keyOf = (secret: Uint8Array) => new Uint8Array(hkdfSync('sha256', secret, '', keyLabel, 32))

const sign = (key: Uint8Array, expiry: string) => createHmac('sha256', key).update(expiry).digest()
