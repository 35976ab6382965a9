import { create, type MessageInitShape } from '@bufbuild/protobuf'
import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Service } from '../../../lib/service.ts'
import type { GitalyInfo, GitalyInfoSchema } from '../../../proto/gen/entity_pb.ts'
import {
  type KnownProject,
  type KnownProjectSchema,
  type KnownToken,
  type KnownTokenSchema,
  type KnownTokensRequest,
  type KnownTokensRequestSchema,
  KnownTokensResponseSchema,
  Tokens,
} from '../../../proto/gen/replica_tokens_pb.ts'
import { type UnaryMethods, unaryService } from '../../../proto/unary.ts'
import type { Agent } from '../../agent.ts'
import type { Peers } from '../../replicas/peers.ts'
import type { GitalyCoordinates } from '../../repositories/gitaly/gitaly-coordinates.ts'
import type { AnswerCache } from './answer-cache.ts'
import type { GitalyCoordinatesByProject } from './gitaly-coordinates.ts'

export interface KnownTokensComponents {
  /** by the hashes of agents' tokens */
  readonly answers: Pick<AnswerCache<Agent>, 'keys' | 'peek' | 'learn' | 'lose'>
  readonly coordinates: Pick<GitalyCoordinatesByProject, 'repository' | 'learn'>
  readonly peers: Pick<Peers, 'broadcast' | 'call' | 'onReached'>
  readonly clock: Clock
}

type Request = MessageInitShape<typeof KnownTokensRequestSchema>

/** from the first answer that peers do not know to their message. ms */
const periodMs = 1000
/** An answer is on its way for no longer: a peer keeps it for so much less. ms */
const lateMs = 3000
/** of one message: each has some 400 bytes where each is of a project of its own */
const maxTokens = 500
/** Tokens that peers are to hear of: those that came last. */
const maxChanged = 20_000

/**
 * Tells peers what GitLab has said of agents' tokens, for as long as it is kept: when a replica dies its agents come to
 * the others, who need not ask, at a time at which GitLab may be slow or away; and an agent that is at two replicas is
 * asked about by one of them. Peers hear of refusals too.
 */
export class KnownTokens implements Service {
  readonly #components: KnownTokensComponents
  readonly #changed = new Set<string>()
  #cancel: (() => void) | undefined
  #unsubscribe: (() => void) | undefined

  constructor(components: KnownTokensComponents) {
    this.#components = components
  }

  /** What peers call. */
  get replicaMethods(): UnaryMethods {
    return unaryService(Tokens, {
      knownTokens: async (request) => {
        this.#learn(request)
        return create(KnownTokensResponseSchema)
      },
    })
  }

  async start(): Promise<void> {
    this.#unsubscribe = this.#components.peers.onReached(async ({ instance }) => {
      for (const hashes of parts([...this.#components.answers.keys()]))
        await this.#components.peers.call(instance, Tokens.method.knownTokens, this.#request(hashes))
    })
  }

  async stop(): Promise<void> {
    this.#unsubscribe?.()
    this.#unsubscribe = undefined
    this.#cancel?.()
  }

  /** GitLab has answered, or refuses what was known. */
  changed(hash: string): void {
    if (!this.#unsubscribe) return
    this.#changed.delete(hash)
    this.#changed.add(hash)
    const [oldest] = this.#changed
    if (this.#changed.size > maxChanged && oldest !== undefined) this.#changed.delete(oldest)
    this.#cancel ??= this.#components.clock.after(periodMs, () => {
      this.#cancel = undefined
      void this.#broadcast()
    })
  }

  async #broadcast(): Promise<void> {
    const hashes = [...this.#changed]
    this.#changed.clear()
    for (const part of parts(hashes))
      await this.#components.peers.broadcast(Tokens.method.knownTokens, this.#request(part))
  }

  #request(hashes: readonly string[]): Request {
    const { answers, coordinates, clock } = this.#components
    const projects = new Map<bigint, MessageInitShape<typeof KnownProjectSchema>>()
    const gitaly = new GitalyInfos()
    const token: MessageInitShape<typeof KnownTokenSchema>[] = []
    const refused: Uint8Array[] = []
    for (const hash of hashes) {
      const tokenHash = Buffer.from(hash, 'hex')
      const answer = answers.peek(hash)
      if (!answer) {
        refused.push(tokenHash)
        continue
      }
      const { id: agentId, name: agentName, project } = answer.value
      if (!projects.has(project.id)) {
        projects.set(project.id, wireProject(project, coordinates.repository(project.id), gitaly))
      }
      const ageMs = Math.max(0, Math.round(clock.now() - answer.from))
      token.push({ tokenHash, agentId, agentName, projectId: project.id, ageMs })
    }
    return { project: [...projects.values()], token, refused, gitaly: gitaly.all }
  }

  #learn({ project, token, refused, gitaly }: KnownTokensRequest): void {
    const { answers, coordinates, clock } = this.#components
    const projects = new Map(
      project.map((each) => [each.id, { wire: each, project: { id: each.id, path: each.path } }]),
    )
    const latest = new Map<KnownProject, number>()
    for (const each of token) {
      const known = projects.get(each.projectId)
      if (!known) continue
      const from = clock.now() - each.ageMs - lateMs
      answers.learn(Buffer.from(each.tokenHash).toString('hex'), agentOf(each, known.project), from)
      latest.set(known.wire, Math.max(from, latest.get(known.wire) ?? from))
    }
    for (const [wire, at] of latest) {
      const found = coordinatesOf(wire, gitaly[wire.gitaly - 1])
      if (found) coordinates.learn(wire.id, found, at)
    }
    for (const hash of refused) answers.lose(Buffer.from(hash).toString('hex'))
  }
}

function* parts(hashes: readonly string[]): Generator<readonly string[]> {
  for (let i = 0; i < hashes.length; i += maxTokens) yield hashes.slice(i, i + maxTokens)
}

function agentOf({ agentId, agentName }: KnownToken, project: Agent['project']): Agent {
  return { id: agentId as AgentId, name: agentName, project }
}

/** Those of one message, each once. */
class GitalyInfos {
  readonly all: MessageInitShape<typeof GitalyInfoSchema>[] = []
  readonly #indexes = new Map<string, number>()

  /** @returns its index, from 1 */
  index({ address, token, features }: GitalyCoordinates): number {
    const key = JSON.stringify([address, token, features])
    const known = this.#indexes.get(key)
    if (known !== undefined) return known
    const index = this.all.push({ address, token, features })
    this.#indexes.set(key, index)
    return index
  }
}

function wireProject(
  { id, path }: Agent['project'],
  coordinates: GitalyCoordinates | undefined,
  gitaly: GitalyInfos,
): MessageInitShape<typeof KnownProjectSchema> {
  if (!coordinates) return { id, path }
  const { repository, defaultBranch } = coordinates
  return {
    id,
    path,
    gitaly: gitaly.index(coordinates),
    gitalyRepository: {
      ...repository,
      gitAlternateObjectDirectories: [...repository.gitAlternateObjectDirectories],
    },
    defaultBranch,
  }
}

function coordinatesOf(
  { gitalyRepository, defaultBranch }: KnownProject,
  gitaly: GitalyInfo | undefined,
): GitalyCoordinates | undefined {
  if (!gitaly || !gitalyRepository) return undefined
  const { address, token, features } = gitaly
  const { storageName, relativePath, glRepository, glProjectPath, gitObjectDirectory, gitAlternateObjectDirectories } =
    gitalyRepository
  const names = { storageName, relativePath, glRepository, glProjectPath }
  return {
    address,
    token,
    features,
    repository: { ...names, gitObjectDirectory, gitAlternateObjectDirectories },
    defaultBranch,
  }
}
