import { readFileSync, statSync } from 'node:fs'

/** Policy that records each request once, after its answer; a watch at its begin. */
export const auditPolicy = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [{ level: 'Metadata' }],
}

interface AuditEvent {
  readonly auditID: string
  readonly verb: string
  readonly userAgent?: string
  readonly user: { readonly username: string }
  readonly objectRef?: { readonly resource?: string; readonly name?: string; readonly namespace?: string }
}

export interface Asked {
  /** requests of any kind */
  readonly calls: number
  /** writes of the set's objects */
  readonly writes: number
}

/** Requests to the API server, by its audit log. */
export class AuditLog {
  readonly #file: string

  constructor(file: string) {
    this.#file = file
  }

  /** Current end of the log. */
  get end(): number {
    return statSync(this.#file).size
  }

  /** @param own - namespace of a tool's own objects: writes there do not count, and its Lease not at all */
  asked(from: number, who: (event: AuditEvent) => boolean, own?: string): Asked {
    const lines = readFileSync(this.#file).subarray(from).toString().split('\n').slice(0, -1)
    const events = new Map(lines.map((line) => JSON.parse(line) as AuditEvent).map((event) => [event.auditID, event]))
    const counted = [...events.values()].filter((event) => who(event) && event.objectRef?.resource !== 'leases')
    const writes = counted.filter(({ verb, objectRef }) => !reads.has(verb) && objectRef?.namespace !== own)
    return { calls: counted.length, writes: writes.length }
  }
}

const reads: ReadonlySet<string> = new Set(['get', 'list', 'watch'])
