import { readFileSync, statSync } from 'node:fs'

/**
 * Returns a policy that records each request once, after its answer; a watch also at its begin.
 *
 * @param unrecorded - user whose requests are left out
 */
export const auditPolicy = (unrecorded?: string) => ({
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [...(unrecorded === undefined ? [] : [{ level: 'None', users: [unrecorded] }]), { level: 'Metadata' }],
})

interface AuditEvent {
  readonly auditID: string
  readonly stage: 'ResponseStarted' | 'ResponseComplete' | 'Panic'
  readonly verb: string
  readonly requestURI: string
  /** RFC 3339, in microseconds */
  readonly requestReceivedTimestamp: string
  readonly stageTimestamp: string
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
    const counted = this.#events(from).filter((event) => who(event) && event.objectRef?.resource !== 'leases')
    const writes = counted.filter((event) => isWrite(event) && event.objectRef?.namespace !== own)
    return { calls: counted.length, writes: writes.length }
  }

  /** Returns the number of watches with this text in their query that have begun since, and are open. */
  openWatches(from: number, query: string): number {
    const isOpen = ({ stage, verb, requestURI }: AuditEvent) =>
      stage === 'ResponseStarted' && verb === 'watch' && decodeURIComponent(requestURI).includes(query)
    return this.#events(from).filter(isOpen).length
  }

  /** Returns the times that a user's renewals of its Lease took at the API server, and those between two of them. ms */
  renewals(from: number, username: string): { readonly took: number[]; readonly between: number[] } {
    const renewed = this.#events(from).filter(
      ({ user, verb, objectRef }) =>
        user.username === username && verb === 'update' && objectRef?.resource === 'leases',
    )
    const begun = renewed.map(({ requestReceivedTimestamp }) => microseconds(requestReceivedTimestamp) / 1000)
    const took = renewed.map(({ stageTimestamp }, i) => microseconds(stageTimestamp) / 1000 - (begun[i] as number))
    return { took, between: begun.slice(1).map((at, i) => at - (begun[i] as number)) }
  }

  /** Returns the last event of each request. */
  #events(from: number): AuditEvent[] {
    const lines = readFileSync(this.#file).subarray(from).toString().split('\n').slice(0, -1)
    const events = lines.map((line) => JSON.parse(line) as AuditEvent)
    return [...new Map(events.map((event) => [event.auditID, event])).values()]
  }
}

const reads: ReadonlySet<string> = new Set(['get', 'list', 'watch'])

/** True for a request that stores something: dry runs and reviews of rights do not. */
function isWrite({ verb, requestURI, objectRef }: AuditEvent): boolean {
  return !reads.has(verb) && !requestURI.includes('dryRun=All') && !objectRef?.resource?.endsWith('accessreviews')
}

function microseconds(time: string): number {
  const [seconds = '', fraction = ''] = time.replace('Z', '').split('.')
  return Date.parse(`${seconds}Z`) * 1000 + Number(fraction.padEnd(6, '0'))
}
