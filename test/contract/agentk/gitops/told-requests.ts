import { readFile } from 'node:fs/promises'

/** Requests about objects, as the API server's audit log has them. */

const agentkUser = 'system:serviceaccount:gitops:agentk'
const deployerUser = 'system:serviceaccount:shop:deployer'

interface AuditEvent {
  readonly user: { readonly username: string }
  readonly impersonatedUser?: { readonly username: string }
  readonly verb: string
  readonly requestURI: string
  readonly objectRef?: { readonly resource?: string; readonly namespace?: string; readonly name?: string }
  readonly responseStatus?: { readonly code?: number }
  readonly requestReceivedTimestamp: string
  readonly stageTimestamp: string
}

/** A request about one object, as the API server has seen it. */
export interface ObjectRequest {
  readonly verb: string
  /** times since 1970. ms */
  readonly receivedAt: number
  readonly endedAt: number
}

/** Requests about one object. */
export interface ObjectRequests {
  /** writes of others, in order */
  readonly writes: readonly ObjectRequest[]
  /** of agentk, from the first of these writes until it writes the object itself */
  readonly calls: readonly ObjectRequest[]
  /** of these, those that agentk has not sent as the source's account */
  readonly asItself: readonly ObjectRequest[]
}

/** Reads the requests about objects, by resource and name. */
export async function readRequests(auditLogFile: string): Promise<(resource: string, name: string) => ObjectRequests> {
  const lines = (await readFile(auditLogFile, 'utf8')).split('\n').slice(0, -1)
  const events = lines.map((line) => JSON.parse(line) as AuditEvent)
  const byObject = Map.groupBy(events, ({ objectRef }) => `${objectRef?.resource} ${objectRef?.name}`)
  return (resource, name) => requestsOf(byObject.get(`${resource} ${name}`) ?? [])
}

const writing = new Set(['create', 'update', 'patch', 'delete'])

function requestsOf(events: readonly AuditEvent[]): ObjectRequests {
  const ordered = events
    .map((event) => ({
      ...event,
      receivedAt: Date.parse(event.requestReceivedTimestamp),
      endedAt: Date.parse(event.stageTimestamp),
    }))
    .sort((one, other) => one.receivedAt - other.receivedAt)
  const isWrite = ({ verb, requestURI, responseStatus }: AuditEvent) =>
    writing.has(verb) && !requestURI.includes('dryRun=') && (responseStatus?.code ?? 0) < 300
  const isAgentks = ({ user }: AuditEvent) => user.username === agentkUser
  const writes = ordered.filter((event) => isWrite(event) && !isAgentks(event))
  const since = writes[0]?.receivedAt ?? Number.POSITIVE_INFINITY
  const own = ordered.filter((event) => isAgentks(event) && event.receivedAt >= since)
  const corrected = own.findIndex(isWrite)
  const calls = corrected < 0 ? own : own.slice(0, corrected)
  return {
    writes,
    calls,
    asItself: calls.filter(({ impersonatedUser }) => impersonatedUser?.username !== deployerUser),
  }
}
