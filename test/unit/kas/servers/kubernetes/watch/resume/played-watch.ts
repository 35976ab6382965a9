import { type AgentId, type Call, noMetadata, type Reply } from '../../../../../../../src/call/call.ts'
import { kasCaller } from '../../../../../../../src/call/caller.ts'
import { KnownMessages } from '../../../../../../../src/call/known-messages.ts'
import { ResumedWatches } from '../../../../../../../src/kas/servers/kubernetes/watch/resume/resumed-watches.ts'
import { watchQuestion } from '../../../../../../../src/kas/servers/kubernetes/watch/resume/watch-question.ts'
import { type ErrorSpec, KasError } from '../../../../../../../src/lib/errors.ts'
import { SharedRooms } from '../../../../../../../src/lib/shared-room.ts'
import { decodeHttpResponse, encodeHttpResponse } from '../../../../../../../src/proto/http/http-over-grpc.ts'
import { ManualClock } from '../../../../../../support/manual-clock.ts'

/** A watch; the test answers each time it is opened. */

export type Query = Readonly<Record<string, string>>

export interface Answer {
  readonly status?: number
  /** the answer ends before its head */
  readonly headless?: boolean
  readonly type?: string
  /** pieces of the body; a number is a pause in ms */
  readonly body?: readonly (string | Uint8Array | number)[]
  /** undefined: the answer ends in order */
  readonly error?: ErrorSpec
}

export const lost: ErrorSpec = { code: 'TUNNEL_LOST', delivery: 'maybe' }
/** Returns an event in JSON. @param more - text after its version */
export const event = (type: string, version: string | number, more = '') =>
  `{"type":"${type}","object":{"kind":"Pod","metadata":{"name":"a","resourceVersion":"${version}"${more}}}}\n`
export const initialEnd = ',"annotations":{"k8s.io/initial-events-end":"true"}'

export function entries(query: Query): [string, string[]][] {
  return Object.entries(query).map(([name, value]): [string, string[]] => [name, [value]])
}

export interface Played {
  readonly text: string
  readonly bytes: Buffer
  readonly error: KasError | undefined
  /** queries, one each time it was opened */
  readonly asked: readonly Query[]
  readonly resumed: number
  /** ms until it ended */
  readonly tookMs: number
}

const nobodyAsks = async () => {}

/** Plays a watch to its end. An opening without an answer of its own fails with AGENT_NOT_CONNECTED. */
export async function play(
  query: Query,
  answers: readonly (Answer | ErrorSpec)[],
  { maxBytes = 1 << 20, mayGoOn = nobodyAsks }: { maxBytes?: number; mayGoOn?: () => Promise<void> } = {},
): Promise<Played> {
  const { signal } = new AbortController()
  const clock = new ManualClock()
  const began = clock.now()
  const asked: Query[] = []
  let resumed = 0
  const forward = async (call: Call): Promise<Reply> => {
    asked.push(JSON.parse(String((call.messages as KnownMessages).all[0])) as Query)
    const answer = answers[asked.length - 1] ?? { code: 'AGENT_NOT_CONNECTED', waitedMs: 0 }
    if ('code' in answer) throw new KasError(answer)
    const { status = 200, type = 'application/json', body = [], headless = false, error } = answer
    const messages = (async function* () {
      if (headless) return
      const header: [string, string[]][] = [['Content-Type', [type]]]
      yield encodeHttpResponse.header({ statusCode: status, status: '', header })
      for (const piece of body) {
        if (typeof piece === 'number') clock.advance(piece)
        else yield encodeHttpResponse.data(Buffer.from(piece))
      }
      if (!error) yield encodeHttpResponse.trailer
    })()
    const done = Promise.resolve({ trailers: noMetadata, ...(error ? { error: new KasError(error) } : {}) })
    return { metadata: Promise.resolve(noMetadata), messages, done }
  }
  const limits = { maxWatchPartialBytes: maxBytes }
  const kept = new SharedRooms<AgentId>({ name: 'watch_bytes_about_agent', limit: maxBytes })
  const watches = new ResumedWatches({ forward, clock, random: () => 0.5, onResumed: () => resumed++, kept }, limits)
  const target = { path: '/api/v1/pods', query: entries({ watch: '1', ...query }) }
  const question = watchQuestion({ method: 'GET', safety: 'safe' }, target, { accept: [] })
  if (!question) throw new Error('it is a watch')
  const messagesOf = (asks: [string, string[]][]) => {
    const plain = Object.fromEntries(asks.map(([name, [value]]) => [name, value]))
    return new KnownMessages([Buffer.from(JSON.stringify(plain))])
  }
  const call = {
    agentId: 42n as AgentId,
    method: '/a.B/C',
    metadata: {},
    safety: 'safe',
    caller: kasCaller,
    signal,
  } as const
  const reply = await watches.open(question, { ...call, messagesOf }, { mayGoOn, kept: () => undefined })
  const chunks: Uint8Array[] = []
  let isRead = false
  const reading = (async () => {
    for await (const message of reply.messages) {
      const decoded = decodeHttpResponse(message)
      if (decoded.kind === 'data') chunks.push(decoded.data)
    }
    isRead = true
  })()
  while (!isRead) {
    await new Promise(setImmediate)
    if (!isRead) clock.advance(50)
  }
  await reading
  const bytes = Buffer.concat(chunks)
  const { error } = await reply.done
  return { text: bytes.toString(), bytes, error, asked, resumed, tookMs: clock.now() - began }
}

const bytesField = (field: number, value: Uint8Array) =>
  Buffer.concat([Buffer.from([(field << 3) | 2]), varint(value.length), value])
const textField = (field: number, value: string) => bytesField(field, Buffer.from(value))

function varint(value: number): Buffer {
  const bytes: number[] = []
  let left = value
  for (; left > 127; left >>>= 7) bytes.push((left & 127) | 128)
  return Buffer.from([...bytes, left])
}

/** Returns the body with its length in front, as Kubernetes frames messages. */
export function framed(body: Uint8Array): Buffer {
  const head = Buffer.alloc(4)
  head.writeUInt32BE(body.length)
  return Buffer.concat([head, body])
}

export const protobuf = 'application/vnd.kubernetes.protobuf;stream=watch'

/** @param object - bytes of the object in the event */
export const protobufFrame = (type: string, object: Uint8Array) =>
  framed(Buffer.concat([textField(1, type), bytesField(2, bytesField(1, object))]))

/** Returns the same as `event`, in protobuf. */
export function protobufEvent(type: string, version: string, name = 'a'): Buffer {
  const pod = bytesField(1, Buffer.concat([textField(1, name), textField(6, version)]))
  return protobufFrame(type, Buffer.concat([Buffer.from('k8s\0'), bytesField(2, pod)]))
}
