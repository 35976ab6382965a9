import { create, type MessageInitShape } from '@bufbuild/protobuf'
import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Service } from '../../../lib/service.ts'
import { ageMs } from '../../../proto/age-ms.ts'
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
import type { TokenAnswers } from '../../directory/gitlab.ts'
import type { KasHost, KasModule } from '../../module.ts'
import type { Peers } from '../../peers/peers.ts'
import type { GitalyCoordinates } from '../../repositories/gitaly/gitaly-coordinates.ts'

/** Shares GitLab's answers for agents' tokens between replicas. @returns undefined: there is no GitLab */
export function createKnownTokens({ gitlab, peers, clock }: KasHost): KasModule | undefined {
  if (!gitlab) return undefined
  const knownTokens = new KnownTokens({ answers: gitlab.tokenAnswers, peers, clock })
  return { name: 'known tokens', replicaMethods: knownTokens.replicaMethods, services: [knownTokens] }
}

export interface KnownTokensComponents {
  readonly answers: TokenAnswers
  readonly peers: Pick<Peers, 'broadcast' | 'call' | 'onReached'>
  readonly clock: Clock
}

type Request = MessageInitShape<typeof KnownTokensRequestSchema>

/** from the first answer that peers do not know to their message, in ms */
const periodMs = 1000
/** Longest time that an answer is on its way, in ms: a peer keeps it that much shorter. */
const lateMs = 3000
/** tokens of one message: each has some 400 bytes if each is of another project */
const maxTokens = 500
/** Tokens that wait to be sent; older ones make room. */
const maxChanged = 20_000

/**
 * Sends peers GitLab's answers for agents' tokens, for as long as they are kept. When a replica dies, its agents come
 * to the others, which need not ask GitLab: it may be slow or unreachable then. For an agent with connections to two
 * replicas, only one of them asks. Refusals are not shared: each replica finds out by itself, as fast as without this.
 */
export class KnownTokens implements Service {
  readonly #components: KnownTokensComponents
  readonly #changed = new Set<string>()
  #cancel: (() => void) | undefined
  #unsubscribe: readonly (() => void)[] = []

  constructor(components: KnownTokensComponents) {
    this.#components = components
  }

  /** Methods that peers call. */
  get replicaMethods(): UnaryMethods {
    return unaryService(Tokens, {
      knownTokens: async (request) => {
        this.#learn(request)
        return create(KnownTokensResponseSchema)
      },
    })
  }

  async start(): Promise<void> {
    const { answers, peers } = this.#components
    this.#unsubscribe = [
      answers.onAnswer((hash) => this.#changedLately(hash)),
      peers.onReached(async ({ instance }) => {
        for (const hashes of parts([...answers.hashes()]))
          await peers.call(instance, Tokens.method.knownTokens, this.#request(hashes))
      }),
    ]
  }

  async stop(): Promise<void> {
    for (const unsubscribe of this.#unsubscribe) unsubscribe()
    this.#cancel?.()
  }

  #changedLately(hash: string): void {
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
    const { answers, clock } = this.#components
    const projects = new Map<bigint, MessageInitShape<typeof KnownProjectSchema>>()
    const gitaly = new GitalyInfos()
    const token: MessageInitShape<typeof KnownTokenSchema>[] = []
    for (const hash of hashes) {
      const tokenHash = Buffer.from(hash, 'hex')
      const answer = answers.of(hash)
      if (!answer) continue // it has expired, or was refused
      const { id: agentId, name: agentName, project } = answer.agent
      if (!projects.has(project.id)) projects.set(project.id, wireProject(project, answer.coordinates, gitaly))
      const askedAt = BigInt(Math.round(answer.askedAt))
      token.push({
        tokenHash,
        agentId,
        agentName,
        projectId: project.id,
        ageMs: ageMs(answer.askedAt, clock.now()),
        askedAt,
      })
    }
    return { project: [...projects.values()], token, gitaly: gitaly.all }
  }

  /** Keeps a peer's answers, with the earlier of both clocks' times: a message may have waited for a frozen replica. */
  #learn({ project, token, gitaly }: KnownTokensRequest): void {
    const { answers, clock } = this.#components
    const projects = new Map(
      project.map((wire) => {
        const known = { id: wire.id, path: wire.path }
        return [wire.id, { project: known, coordinates: coordinatesOf(wire, gitaly[wire.gitaly - 1]) }] as const
      }),
    )
    for (const each of token) {
      const known = projects.get(each.projectId)
      if (!known) continue
      const askedAt = Math.min(clock.now() - each.ageMs - lateMs, Number(each.askedAt))
      const answer = { agent: agentOf(each, known.project), askedAt, coordinates: known.coordinates }
      answers.learn(Buffer.from(each.tokenHash).toString('hex'), answer)
    }
  }
}

function* parts(hashes: readonly string[]): Generator<readonly string[]> {
  for (let i = 0; i < hashes.length; i += maxTokens) yield hashes.slice(i, i + maxTokens)
}

function agentOf({ agentId, agentName }: KnownToken, project: Agent['project']): Agent {
  return { id: agentId as AgentId, name: agentName, project }
}

/** The infos of one message, each once. */
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
