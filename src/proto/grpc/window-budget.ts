/**
 * Budget of an owner for the bytes that wide windows of all its connections may bring beyond the narrowest ones. A
 * connection claims the windows granted to its streams, from when the grant leaves until a narrower window is
 * acknowledged.
 */
export class WindowBudget {
  readonly maxBytes: number
  readonly #parent: WindowBudget | undefined
  readonly #claims = new Map<object, number>()
  #claimed = 0
  #unreadBytes = 0

  /** @param parent - counts the same claims */
  constructor(maxBytes: number, parent?: WindowBudget) {
    this.maxBytes = maxBytes
    this.#parent = parent
  }

  /** Most bytes that one connection may claim: an equal part, if the others have left as much. */
  shareOf(connection: object): number {
    const own = this.#claims.get(connection)
    const connections = this.#claims.size + (own === undefined ? 1 : 0)
    const left = this.maxBytes - (this.#claimed - (own ?? 0)) - this.#unreadBytes
    const share = Math.max(0, Math.min(this.maxBytes / connections, left))
    return this.#parent ? Math.min(share, this.#parent.shareOf(connection)) : share
  }

  /** Replaces the connection's claim; 0: removes it. */
  claim(connection: object, bytes: number): void {
    this.#claimed += bytes - (this.#claims.get(connection) ?? 0)
    if (bytes === 0) this.#claims.delete(connection)
    else this.#claims.set(connection, bytes)
    this.#parent?.claim(connection, bytes)
  }

  /** Counts bytes that came through wide windows and wait for their readers: they are not granted again. */
  hold(bytes: number): void {
    this.#unreadBytes += bytes
    this.#parent?.hold(bytes)
  }
}
