import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'

/** Below the prefix: where `kas doctor` tries what a front lets through. */
export const frontCheckPath = '/front-check'
/** of its WebSocket, on which each message comes back */
export const frontCheckProtocol = 'front-check.kas'
/** `Authorization: Bearer front:TICKET` */
export const frontTicketScheme = 'Bearer front:'

/** What `kas doctor` gets for a request: how it came here. */
export interface FrontCheckAnswer {
  /** who is believed to have sent it; undefined: of a Unix socket */
  readonly client: string | undefined
  /** the far end of the connection: a front, if there is one */
  readonly sender: string | undefined
  /** `sender` is trusted to say whom a request is from */
  readonly isTrusted: boolean
  /** it had an X-Forwarded-For */
  readonly isForwarded: boolean
  /** of its body */
  readonly bytes: number
}

/** Long enough to be shown at another replica, whose clock may differ. ms */
const ticketLifeMs = 120_000
const keyLabel = 'gitlab-kas front check 1'

/**
 * What lets `kas doctor` in to the check of a front, and to nothing else: a replica gives it on its Unix socket, and each
 * replica with the same secret takes it.
 */
export class FrontTickets {
  readonly #key: Uint8Array
  /** whose tickets are taken: the own one, and while the secret is changed that of before */
  readonly #taken: readonly Uint8Array[]

  /**
   * @param secret - which the replicas share; absent: there is one
   * @param previous - the one of before, which some replicas may have still
   */
  constructor(secret: Uint8Array = randomBytes(32), previous?: Uint8Array) {
    this.#key = keyOf(secret)
    this.#taken = previous === undefined ? [this.#key] : [this.#key, keyOf(previous)]
  }

  /** @param now - since 1970. ms */
  make(now: number): string {
    const expiry = String(now + ticketLifeMs)
    return `${expiry}.${sign(this.#key, expiry).toString('base64url')}`
  }

  isValid(ticket: string, now: number): boolean {
    const [, expiry, signature] = /^(\d{1,15})\.([\w-]{43})$/.exec(ticket) ?? []
    if (expiry === undefined || signature === undefined) return false
    const given = Buffer.from(signature, 'base64url')
    // each is compared, so that the time does not show by which it is signed
    const equal = this.#taken.map((key) => timingSafeEqual(sign(key, expiry), given))
    return equal.includes(true) && Number(expiry) > now && Number(expiry) <= now + 2 * ticketLifeMs
  }
}

const keyOf = (secret: Uint8Array) => new Uint8Array(hkdfSync('sha256', secret, '', keyLabel, 32))

const sign = (key: Uint8Array, expiry: string) => createHmac('sha256', key).update(expiry).digest()
