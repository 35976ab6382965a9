import { createHash } from 'node:crypto'
import { create, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf'
import { Registry } from 'prom-client'
import type { Test } from 'tap'
import { Terms } from '../../../../src/agentk/election/terms.ts'
import { objectsMethod } from '../../../../src/agentk/modules/gitops/files/objects-stream.ts'
import { createGitops } from '../../../../src/agentk/modules/gitops/module.ts'
import { pushMethod } from '../../../../src/agentk/modules/gitops/state/state-push.ts'
import { type Clock, systemClock } from '../../../../src/lib/clock.ts'
import { KasError } from '../../../../src/lib/errors.ts'
import { type AgentConfiguration, AgentConfigurationSchema } from '../../../../src/proto/gen/agentcfg_pb.ts'
import {
  ObjectsToSynchronizeRequestSchema,
  ObjectsToSynchronizeResponseSchema,
} from '../../../../src/proto/gen/gitops_pb.ts'
import { type SourceState, SourceStateSchema } from '../../../../src/proto/gen/gitops_states_pb.ts'
import type { GitopsBlock } from '../../../../src/proto/gitops/schema.ts'
import { readOne } from '../../../../src/proto/unary.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { identities } from '../../../support/identities.ts'
import { RecordedTracer } from '../../../support/recorded-tracer.ts'
import { kasOf, startSessions } from '../agent-side.ts'
import { FakeKas, listenAs } from '../fake-kas.ts'
import type { Ground } from './ground.ts'

/** traceparent of the span of kas */
export const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

type Request = MessageShape<typeof ObjectsToSynchronizeRequestSchema>

/** A kas with one project. The test pushes the files. */
export class ProjectKas {
  readonly kas = new FakeKas()
  readonly requests: Request[] = []
  readonly #projectId: bigint
  #files: Readonly<Record<string, string>> | undefined
  #pushed = Promise.withResolvers<void>()
  /** error with which kas refuses the stream; undefined: none */
  refusal: KasError | undefined
  /** more fields of the header before the files */
  header: { readonly leftOut?: readonly string[]; readonly branch?: string } = {}
  /** glob of a source that kas refuses the newest commit's files; undefined: none */
  refusedGlob: string | undefined
  /** full path of a project for which kas never sends anything */
  unreadable: string | undefined

  /** states in the order in which agentk reported them */
  readonly states: SourceState[] = []
  /** called after each state */
  onState: (state: SourceState) => void = () => undefined

  constructor(projectId: bigint) {
    this.#projectId = projectId
    this.kas.handlers.set(pushMethod, async (stream) => {
      stream.sendMetadata({})
      for await (const message of stream.messages) {
        const state = fromBinary(SourceStateSchema, message)
        this.states.push(state)
        this.onState(state)
      }
    })
    this.kas.handlers.set(objectsMethod, async (stream) => {
      const request = await readOne(ObjectsToSynchronizeRequestSchema, stream.messages)
      this.requests.push(request)
      stream.sendMetadata({})
      if (this.refusal) throw this.refusal
      const left = Promise.withResolvers<never>()
      stream.signal.addEventListener('abort', () => left.reject(stream.signal.reason))
      if (request.projectId === this.unreadable) await left.promise
      while (!this.#files || this.commit === request.commitId) await Promise.race([this.#pushed.promise, left.promise])
      if (this.refusedGlob !== undefined && request.paths.some(({ path }) => path.value === this.refusedGlob))
        throw new KasError({ code: 'MANIFESTS_REFUSED', detail: 'more than 1000 files' })
      const send = (message: object) =>
        stream.send(toBinary(ObjectsToSynchronizeResponseSchema, create(ObjectsToSynchronizeResponseSchema, message)))
      const known = new Set(request.knownBlob.map((blob) => Buffer.from(blob).toString('hex')))
      await send({
        message: {
          case: 'header',
          value: { commitId: this.commit, projectId: this.#projectId, ageMs: 5, traceparent, ...this.header },
        },
      })
      const globs = request.paths.map(({ path }) => (path.value ?? '').replace('**', ''))
      for (const [source, text] of Object.entries(this.#files)) {
        if (!globs.some((folder) => folder.includes('*') || source.startsWith(folder))) continue
        const blob = createHash('sha1').update(text).digest()
        const half = Math.floor(text.length / 2)
        const isKnown = known.has(blob.toString('hex'))
        const pieces = isKnown ? [''] : [text.slice(0, half), text.slice(half)]
        for (const [index, data] of pieces.entries()) {
          const first = index === 0 ? { blob, known: isKnown } : {}
          await send({ message: { case: 'object', value: { source, data: Buffer.from(data), ...first } } })
        }
      }
      await send({ message: { case: 'trailer', value: {} } })
    })
  }

  get commit(): string {
    return createHash('sha1').update(JSON.stringify(this.#files)).digest('hex')
  }

  push(files: Readonly<Record<string, string>>): void {
    this.#files = files
    this.#pushed.resolve()
    this.#pushed = Promise.withResolvers()
  }
}

/**
 * Starts the module with this kas and an API server. It leads.
 *
 * @param serverClock - the API server's. @param clock - of all else
 * @param accepted - identities that agentk may act as. @param path - folders of rendering programs
 */
export async function startGitops(
  t: Test,
  ground: Ground,
  project: ProjectKas,
  block: GitopsBlock,
  client = ground.client,
  serverClock: Clock = systemClock,
  clock: Clock = systemClock,
  accepted = identities(),
  path = '',
) {
  const sessions = await startSessions(t, `grpc://127.0.0.1:${await listenAs(t, project.kas, 'grpc')}`)
  const { log, lines } = capturedLog()
  const configured: ((received: AgentConfiguration) => void)[] = []
  const current = create(AgentConfigurationSchema, { agentId: 42n, projectId: 1n, projectPath: 'platform/clusters' })
  let read: (() => void) | undefined
  let blockNow: GitopsBlock | undefined = block
  const configuration = {
    current,
    onChange: (listener: (received: AgentConfiguration) => void) => void configured.push(listener),
    block: <T>(_: string, of: (json: unknown) => T) => {
      let value: T | undefined
      read = () => {
        value = blockNow && of(blockNow)
      }
      return () => value
    },
  }
  const register = new Registry()
  const tracer = new RecordedTracer()
  const module = createGitops(
    {
      api: client,
      identities: accepted,
      kas: kasOf(sessions),
      configuration,
      self: { meta: { podNamespace: 'gitops' } as never, product: '' },
      clock,
      serverClock,
      random: Math.random,
      register,
      tracer,
      log: () => log,
    },
    { path },
  )
  let holds = true
  const election = { identity: 'own', leader: 'own', holds: () => holds, onChange: () => undefined }
  const configure = (next: GitopsBlock | undefined) => {
    blockNow = next
    read?.()
    for (const listener of configured) listener(current)
  }
  configure(block)
  if (!module.lead) throw new Error('the module does not lead')
  const terms = new Terms({ election, log }, module.lead)
  t.teardown(() => terms.stop())
  await terms.start()
  /** Another pod leads, and this one, which is frozen or cut off, has not noticed it. */
  const lose = () => {
    holds = false
  }
  /** methods that kas can call now */
  const methods = () => module.methods ?? new Map()
  return { lines, register, tracer, configure, methods, lose, stop: () => terms.stop() }
}
