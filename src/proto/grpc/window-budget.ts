/**
 * What wide windows may bring beyond the narrowest ones, of all connections of an owner. A connection claims for its
 * streams what they were granted, from when that leaves until a narrower window is acknowledged.
 */
export class WindowBudget {
  readonly maxBytes: number
  readonly #parent: WindowBudget | undefined
  readonly #claims = new Map<object, number>()
  #claimed = 0
  #unreadBytes = 0

  /** @param parent - counts all of this, too */
  constructor(maxBytes: number, parent?: WindowBudget) {
    this.maxBytes = maxBytes
    this.#parent = parent
  }

  /** What one connection may claim: an equal part, if others have left so much. */
  shareOf(connection: object): number {
    const own = this.#claims.get(connection)
    const connections = this.#claims.size + (own === undefined ? 1 : 0)
    const left = this.maxBytes - (this.#claimed - (own ?? 0)) - this.#unreadBytes
    const share = Math.max(0, Math.min(this.maxBytes / connections, left))
    return this.#parent ? Math.min(share, this.#parent.shareOf(connection)) : share
  }

  /** In place of what it claimed before; 0: it claims nothing any more. */
  claim(connection: object, bytes: number): void {
    this.#claimed += bytes - (this.#claims.get(connection) ?? 0)
    if (bytes === 0) this.#claims.delete(connection)
    else this.#claims.set(connection, bytes)
    this.#parent?.claim(connection, bytes)
  }

  /** What has come through wide windows and waits for its readers is not granted again. */
  hold(bytes: number): void {
    this.#unreadBytes += bytes
    this.#parent?.hold(bytes)
  }
}
