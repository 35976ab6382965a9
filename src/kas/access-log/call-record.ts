import { randomUUID } from 'node:crypto'
import { askedNames } from '../../kubernetes/request/asked-identity.ts'
import { isActing, type RequestInfo, requestInfo } from '../../kubernetes/request/request-info.ts'
import type { Delivery } from '../../lib/errors.ts'
import type { LineClass } from '../config/access-log.ts'
import { type AccessLine, bounds, cut } from './access-line.ts'
import type { AccessLog } from './access-log.ts'
import { type Asked, addInfo } from './asked-fields.ts'

/** Client of a request. */
export interface RecordedClient {
  readonly request: {
    readonly method?: string | undefined
    readonly headers: { readonly 'user-agent'?: string | undefined }
  }
  /** undefined: unknown */
  readonly address: string | undefined
}

/** A caller, with or without access: a CI job, a browser's session or a personal access token. */
export interface RecordedCaller {
  readonly via: 'ci' | 'user' | 'pat'
  readonly userId: bigint
  readonly username: string
  /** project of the job, else of the agent; absent: a user asks about itself */
  readonly projectId?: bigint
  /** absent: the caller is no job */
  readonly job?: { readonly id: bigint; readonly pipelineId: bigint }
}

export interface CallEnd {
  /** undefined: there was no answer */
  readonly status: number | undefined
  /** outcome, as in `kas_kubernetes_requests_total` */
  readonly outcome: string
  /** code of doc/reference/errors.md of the failure */
  readonly reason?: string | undefined
  /** possible delivery to the cluster, if the cluster's answer does not show it */
  readonly delivery?: Delivery | undefined
  /** bytes of bodies, or of the connection after an upgrade */
  readonly received: number
  readonly sent: number
}

/** A call, from its begin on. */
export interface ObservedCall {
  /** id in the access log, and in the cluster's audit log */
  readonly auditId: string
  /** Fields of the call that are known by now; of an exec only the program. */
  fields(): Partial<AccessLine>
}

/** Called at the begin of each call; it returns a function for its end. */
export type ObserveCall = (call: ObservedCall) => (end: CallEnd) => void

/** Header of a request to a cluster, by which its audit log names it. */
export const auditIdHeader = 'Audit-Id'

export interface CallRecordComponents {
  /** undefined: no line is written */
  readonly log: AccessLog | undefined
  readonly observe?: ObserveCall
}

const changing: ReadonlySet<string> = new Set(['create', 'update', 'patch', 'delete', 'deletecollection'])
const reading: ReadonlySet<string> = new Set(['get', 'list', 'watch', 'head', 'options'])
/** outcomes without a cluster's answer: another replica writes the line, or it is no call */
const unrecorded: ReadonlySet<string> = new Set(['redirected', 'preflight'])

const kinds = { ci: 'ci_job', user: 'session_cookie', pat: 'personal_access_token' } as const

/**
 * Gathers the access log's fields of one call while it runs. It writes a line at the call's end, and for a long call
 * also one at its begin. Modules observe it (doc/decisions/0034).
 */
export class CallRecord implements ObservedCall {
  /** id of the call here, and in the cluster's audit log */
  readonly auditId: string = randomUUID()
  readonly #log: AccessLog | undefined
  readonly #client: RecordedClient
  readonly #onEnd: ((end: CallEnd) => void) | undefined
  readonly #startedAt = performance.now()
  readonly #traceId: string | undefined
  #method: string
  #asked: Asked | undefined
  #lasts = false
  #isUpgrade = false
  #agentId: bigint | undefined
  #access: RecordedCaller | undefined
  #isLetIn = false
  #as: string | undefined
  #askedAs: readonly string[] = []
  /** contents of its views, each once */
  readonly #shownViews = new Set<string>()
  #holder: string | undefined
  /** class of the line at its begin */
  #class: LineClass | undefined
  #info: RequestInfo | undefined

  constructor({ log, observe }: CallRecordComponents, client: RecordedClient, traceId: string | undefined) {
    this.#log = log
    this.#client = client
    this.#traceId = traceId
    this.#method = client.request.method ?? ''
    this.#onEnd = observe?.(this)
  }

  /** @param how.lasts - its answer has no end of its own, or is a connection */
  asks(method: string, asked: Asked, how: { lasts: boolean; isUpgrade: boolean }): void {
    this.#method = method
    this.#asked = asked
    this.#lasts = how.lasts
    this.#isUpgrade = how.isUpgrade
  }

  /** @param names - names that the caller's own headers impersonate: `askedNames.count` at the most */
  asksAs(names: readonly string[]): void {
    this.#askedAs = names.map((name) => cut(name, askedNames.characters))
  }

  /** @param text - content of one of its views: the first ones are kept */
  shows(text: string): void {
    if (this.#shownViews.size < bounds.views) this.#shownViews.add(text)
  }

  /** Records the agent that the call names: nothing is checked yet. */
  calls(agentId: bigint): void {
    this.#agentId = agentId
  }

  /** Records the owner of the credentials, before the caller is let in or refused. */
  knows(caller: RecordedCaller): void {
    this.#access = caller
  }

  /** @param as - identity in the cluster; undefined: the agent itself */
  letIn(access: RecordedCaller, as: string | undefined): void {
    this.#access = access
    this.#isLetIn = true
    this.#as = as
  }

  /** True if its answer has no end of its own, or is a connection. */
  get lasts(): boolean {
    return this.#lasts
  }

  /** Fields that are known by now, for `kas sessions` and for modules; of an exec only the program. */
  fields(): Partial<AccessLine> {
    const fields: Partial<AccessLine> = {}
    this.#addCall(fields, false)
    this.#addWay(fields)
    return fields
  }

  /**
   * Records the replica whose tunnel has the call.
   *
   * @param peer - name of the replica; undefined: this one
   */
  takenBy(peer: string | undefined): void {
    this.#holder = peer ?? this.#log?.entry
  }

  /** Records the status line; the body has not come yet. */
  answered(status: number | undefined): void {
    const log = this.#log
    if (!log || !this.#lasts || this.#class || status === undefined || status >= 300) return
    const name = this.#classOf()
    if (!this.#isLogged(log, name)) return
    this.#class = name
    log.write(name, this.#source, () => this.#line(log, 'begin', name, { status }))
  }

  ended(end: CallEnd): void {
    this.#onEnd?.(end)
    const log = this.#log
    if (!log || unrecorded.has(end.outcome)) return
    const refused = isRefusal(end, this.#isLetIn)
    if (!this.#isLetIn && !refused) return // left before it was let in
    if (!this.#access) {
      this.#stranger(log, end)
      return
    }
    const isSignIn = end.outcome === 'token'
    const name = isSignIn ? 'session' : (this.#class ?? (refused ? 'refusal' : this.#classOf()))
    if (!this.#class && !this.#isLogged(log, name)) return
    if (isSignIn && !log.hasOwnLine('sign_in', this.#source, this.fields())) return
    const ms = Math.round((performance.now() - this.#startedAt) * 10) / 10
    log.write(name, this.#source, () => this.#line(log, isSignIn ? 'sign_in' : 'end', name, { ...end, ms }))
  }

  #stranger(log: AccessLog, { status, outcome, reason = outcome }: CallEnd): void {
    const refused = { event: 'refused', reason, address: this.#address ?? '' } as const
    log.stranger(refused, () => {
      const fields: Partial<AccessLine> = {}
      this.#addIds(fields)
      this.#addCall(fields, false)
      addEnd(fields, { status, outcome })
      this.#addUserAgent(fields)
      return fields
    })
  }

  #isLogged(log: AccessLog, name: LineClass): boolean {
    const { verb, group, resource, subresource, namespace } = this.#requestInfo()
    const access = this.#access
    return log.isLogged({
      class: name,
      verb,
      group,
      resource,
      subresource,
      namespace,
      agentId: this.#agentId,
      user: access && { name: access.username, id: access.userId },
    })
  }

  #requestInfo(): RequestInfo {
    this.#info ??= requestInfo(this.#method, this.#asked ?? { path: '', query: [] })
    return this.#info
  }

  #classOf(): LineClass {
    const info = this.#requestInfo()
    const { verb, resource, group, subresource } = info
    const isRead = reading.has(this.#method.toLowerCase())
    if (isActing(info)) {
      const isProxied = verb === 'proxy' || subresource === 'proxy'
      return isProxied && isRead && !this.#isUpgrade ? 'read' : 'exec'
    }
    if (changing.has(verb) || !isRead) return 'write'
    if (resource === 'secrets' && group === '') return 'secret'
    if (this.#lasts) return this.#isUpgrade && resource !== undefined && verb !== 'watch' ? 'exec' : 'watch'
    return 'read'
  }

  /** Source whose turns its lines take. */
  get #source(): string {
    const access = this.#access
    if (!access) return `address ${this.#address}`
    return access.via === 'ci' ? `project ${access.projectId}` : `user ${access.userId}`
  }

  get #address(): string | undefined {
    return this.#client.address
  }

  /** Builds the line field by field: absent fields are left out, and copies would cost more than the rest. */
  #line(
    log: AccessLog,
    event: AccessLine['event'],
    name: LineClass,
    end: Partial<CallEnd> & { readonly ms?: number },
  ): AccessLine {
    const line: Partial<AccessLine> = { time: log.time(), event, class: name }
    this.#addIds(line)
    this.#addCall(line, log.showsCommand)
    addEnd(line, end)
    this.#addWay(line)
    line.entry = log.entry
    return line as AccessLine
  }

  /** Adds the ids by which other logs name it. */
  #addIds(line: Partial<AccessLine>): void {
    line.id = this.auditId
    if (this.#traceId !== undefined) line.trace_id = this.#traceId
  }

  /** Adds the caller and the request. */
  #addCall(line: Partial<AccessLine>, showsCommand: boolean): void {
    if (this.#access) line.caller = callerOf(this.#access)
    if (this.#as !== undefined) line.as = cut(this.#as, bounds.name)
    if (this.#askedAs.length > 0) line.asked_as = [...this.#askedAs]
    if (this.#agentId !== undefined) line.agent_id = String(this.#agentId)
    if (this.#asked) addInfo(line, this.#requestInfo(), this.#asked, showsCommand)
    if (this.#shownViews.size > 0) line.view = cut([...this.#shownViews].join('; '), bounds.view)
  }

  /** Adds the client's address and program, and the replica. */
  #addWay(line: Partial<AccessLine>): void {
    const address = this.#address
    if (address !== undefined) line.address = address
    this.#addUserAgent(line)
    if (this.#holder !== undefined) line.holder = this.#holder
  }

  #addUserAgent(line: Partial<AccessLine>): void {
    const userAgent = this.#client.request.headers['user-agent']
    if (userAgent !== undefined) line.user_agent = cut(userAgent, bounds.userAgent)
  }
}

function addEnd(line: Partial<AccessLine>, end: Partial<CallEnd> & { readonly ms?: number }): void {
  const { status, outcome, delivery, reason, received, sent, ms } = end
  if (status !== undefined) line.status = status
  if (outcome !== undefined) line.outcome = outcome
  if (delivery !== undefined) line.delivery = delivery
  if (reason !== undefined) line.reason = reason
  if (received !== undefined) line.received = received
  if (sent !== undefined) line.sent = sent
  if (ms !== undefined) line.ms = ms
}

/** True if the call was refused because the caller may not make it, or made it wrongly. */
function isRefusal({ status = 0, outcome, reason, delivery }: CallEnd, isLetIn: boolean): boolean {
  if (outcome === 'foreign_origin' || status === 401 || status === 403) return true
  if (outcome !== 'failed' && outcome !== 'cut') return false
  return !isLetIn || (reason !== undefined && delivery === 'none' && status >= 400 && status < 500)
}

function callerOf({ via, userId, username, projectId, job }: RecordedCaller): AccessLine['caller'] {
  const user = { kind: kinds[via], id: String(userId), name: cut(username, bounds.name) }
  if (!job) return user
  return { ...user, project: String(projectId), job: String(job.id), pipeline: String(job.pipelineId) }
}
