import type { Clock } from '../../../lib/clock.ts'
import { within } from '../../../lib/deadline.ts'
import { Code, KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { linkedController } from '../../../lib/signals.ts'
import { hopByHopHeaders, namedByConnection } from '../../../proto/http/hop-by-hop.ts'
import type { Headers, HttpMessage, HttpResponseHeader, ModuleRequestHeader } from '../../../proto/http/http-message.ts'
import { canonicalHeaderName, decodeModuleRequest, encodeHttpResponse } from '../../../proto/http/http-over-grpc.ts'
import { HttpRequestMessages } from '../../../proto/http/http-request-messages.ts'
import type { AgentCall } from '../../agent-method.ts'
import type { Gitlab, GitlabAnswer, GitlabRequest } from '../../directory/gitlab.ts'
import { type AgentTurnsOptions, agentTurns } from './agent-turns.ts'
import { gitlabRequestHead } from './gitlab-request.ts'

/** A stalled agent must not occupy one of the few turns forever. */
const defaultMaxSilenceMs = 60_000

/**
 * Serves GitlabAccess.MakeRequest: passes an agent's HTTP request to a module of GitLab, and streams the answer back.
 *
 * @see doc/reference/tunnel-protocol.md 1.3, 1.8, 5.3
 */
export function makeRequest(
  components: {
    readonly gitlab: Pick<Gitlab, 'passToGitlab'>
    readonly log: Logger
    readonly clock: Clock
  },
  options: {
    /** the longest that an agent may pause its request or its reading of the answer, in ms */
    readonly maxSilenceMs?: number
    readonly turns?: AgentTurnsOptions
  } = {},
): (call: AgentCall) => Promise<void> {
  const { log, clock } = components
  const patience: Patience = { clock, ms: options.maxSilenceMs ?? defaultMaxSilenceMs }
  const takeTurn = agentTurns({ clock }, options.turns)
  return async (call) => {
    const { agent, token, signal } = call
    const incoming = new PatientMessages(call.messages, patience)
    const messages = new HttpRequestMessages(incoming, decode)
    const header = await messages.header()
    const head = gitlabRequestHead(header)
    const fields = { mod_name: 'gitlab_access', agent_id: String(agent.id), module: header.moduleName.slice(0, 100) }
    const leave = await takeTurn(agent.id, signal)
    const ended = linkedController(signal)
    const readRest = () => {
      incoming.isWhole = true
      messages.discard({ bodyAllowed: false }).catch((error: unknown) => ended.abort(error))
    }
    try {
      const body = await bodyOf(messages, header, readRest)
      const take = (answer: GitlabAnswer) => sendAnswer(call, answer, patience)
      await components.gitlab.passToGitlab({ ...head, ...body, token }, take, ended.signal)
    } catch (error) {
      log.debug({ ...fields, error }, "An agent's request to GitLab failed")
      throw accessError(error)
    } finally {
      leave()
      ended.dispose()
    }
  }
}

/** @throws KasError INVALID_MESSAGE for an upgrade */
function decode(bytes: Uint8Array): HttpMessage<ModuleRequestHeader> {
  const message = decodeModuleRequest(bytes)
  if (message.kind === 'upgradeData') throw invalid('connection upgrade is not supported')
  return message
}

/** @param onEnd - called when the whole body has been read, or there is none */
async function bodyOf(
  messages: HttpRequestMessages<ModuleRequestHeader>,
  { contentLength = -1 }: ModuleRequestHeader,
  onEnd: () => void,
): Promise<Pick<GitlabRequest, 'body' | 'contentLength'>> {
  if (contentLength === 0 || (contentLength < 0 && !(await messages.hasBody()))) {
    onEnd()
    return {}
  }
  const body = wholeBody(messages.body(), contentLength, onEnd)
  return contentLength < 0 ? { body } : { body, contentLength }
}

/** @param contentLength - -1: any length */
async function* wholeBody(
  chunks: AsyncIterable<Uint8Array>,
  contentLength: number,
  onEnd: () => void,
): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const chunk of chunks) {
    bytes += chunk.length
    if (contentLength >= 0 && bytes > contentLength) throw invalid('the body is longer than content_length')
    yield chunk
  }
  if (bytes < contentLength) throw invalid('the body is shorter than content_length')
  onEnd()
}

async function sendAnswer(call: AgentCall, answer: GitlabAnswer, patience: Patience): Promise<void> {
  const { statusCode, statusText, rawHeaders, body } = answer
  const send = async (message: Uint8Array) => {
    const room = call.send(message)
    if (room) await patiently(room, patience, 'the answer was not read')
  }
  await send(encodeHttpResponse.header(gitlabAnswerHeader(statusCode, statusText, rawHeaders)))
  for await (const chunk of body) await send(encodeHttpResponse.data(chunk))
  await send(encodeHttpResponse.trailer)
}

const notPassed = new Set(hopByHopHeaders)

/**
 * Returns the head of GitLab's answer for the agent: canonical names, the values of a name in order, no hop-by-hop
 * header.
 *
 * @param rawHeaders - name, value, name, value
 */
function gitlabAnswerHeader(statusCode: number, statusText: string, rawHeaders: readonly string[]): HttpResponseHeader {
  const byName = new Map<string, string[]>()
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = canonicalHeaderName(rawHeaders[i] as string)
    const values = byName.get(name)
    if (values) values.push(rawHeaders[i + 1] as string)
    else byName.set(name, [rawHeaders[i + 1] as string])
  }
  const named = namedByConnection(byName.get('Connection') ?? [])
  const header: Headers = [...byName].filter(([name]) => !notPassed.has(name) && !named?.has(name))
  return { statusCode, status: statusText ? `${statusCode} ${statusText}` : String(statusCode), header }
}

interface Patience {
  readonly clock: Clock
  readonly ms: number
}

/** Messages of an agent, whose pauses are bounded until the request is whole. */
class PatientMessages implements AsyncIterableIterator<Uint8Array> {
  isWhole = false
  readonly #source: AsyncIterator<Uint8Array>
  readonly #patience: Patience

  constructor(source: AsyncIterable<Uint8Array>, patience: Patience) {
    this.#source = source[Symbol.asyncIterator]()
    this.#patience = patience
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    const next = this.#source.next()
    return this.isWhole ? next : patiently(next, this.#patience, 'the request did not go on')
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}

function patiently<T>(promise: Promise<T>, patience: Patience, what: string): Promise<T> {
  const message = `${what} for ${patience.ms} ms`
  const reason = () => new KasError({ code: 'STATUS', grpc: Code.DEADLINE_EXCEEDED, message })
  return within(promise, { ...patience, reason })
}

/** Words failures between kas and GitLab as upstream does; other errors are the agent's own, or the agent has left. */
function accessError(error: unknown): KasError {
  const failure = KasError.from(error)
  if (failure.code !== 'GITLAB_UNREACHABLE' && failure.code !== 'GITLAB_BUSY') return failure
  const message = `gRPC -> HTTP: ${failure.message}`
  return new KasError({ code: 'STATUS', grpc: failure.grpcCode, message }, { cause: error })
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}
