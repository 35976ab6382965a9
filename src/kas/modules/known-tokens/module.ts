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

/** Replicas send one another what GitLab said of agents' tokens. @returns undefined: each knows it by itself */
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

/** from the first answer that peers do not know to their message. ms */
const periodMs = 1000
/** An answer is on its way for no longer: a peer keeps it for so much less. ms */
const lateMs = 3000
/** of one message: each has some 400 bytes where each is of a project of its own */
const maxTokens = 500
/** Tokens that peers are to get: those that came last. */
const maxChanged = 20_000

/**
 * Sends peers what GitLab has said of agents' tokens, for as long as it is kept: when a replica dies its agents come to
 * the others, who need not ask, at a time at which GitLab may be slow or away; and an agent that is at two replicas is
 * asked about by one of them. A refusal is nobody else's: each replica finds out by itself, in the same time as without this.
 */
export class KnownTokens implements Service {
  readonly #components: KnownTokensComponents
  readonly #changed = new Set<string>()
  #cancel: (() => void) | undefined
  #unsubscribe: readonly (() => void)[] = []

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
      if (!answer) continue // it is over, or was refused
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

  /** By the clock that says less: a message may have waited long for a replica that was frozen. */
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
