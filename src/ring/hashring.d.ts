/** The part of hashring 3.2 that is used; the package has no types. Never `swap` (doc/internals/membership.md). */
declare module 'hashring' {
  export default class HashRing {
    constructor(servers: readonly string[], algorithm?: string, options?: { 'vnode count'?: number })
    /** servers from the key's place on the ring, each once */
    range(key: string, size: number, unique: boolean): string[]
  }
}
