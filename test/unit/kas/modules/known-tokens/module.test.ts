import { create, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import type { Agent } from '../../../../../src/kas/agent.ts'
import { AnswerCache } from '../../../../../src/kas/directory/gitlab/answer-cache.ts'
import { GitalyCoordinatesByProject } from '../../../../../src/kas/directory/gitlab/gitaly-coordinates.ts'
import { GitlabTokenAnswers } from '../../../../../src/kas/directory/gitlab/gitlab-token-answers.ts'
import { KnownTokens, type KnownTokensComponents } from '../../../../../src/kas/modules/known-tokens/module.ts'
import type { Peer } from '../../../../../src/kas/peers/peers.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { tokenHash } from '../../../../../src/lib/token-hash.ts'
import { KnownTokensRequestSchema, Tokens } from '../../../../../src/proto/gen/replica_tokens_pb.ts'
import { methodPath } from '../../../../../src/proto/unary.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const ttlMs = 300_000
const refused = new KasError({ code: 'UNAUTHENTICATED' })
const { signal } = new AbortController()
const method = methodPath(Tokens.method.knownTokens)
const agent = (id: number, project = 1): Agent => {
  return { id: BigInt(id) as AgentId, name: `agent-${id}`, project: { id: BigInt(project), path: `group/${project}` } }
}
const coordinates = (address: string) => ({
  address,
  token: 'gitaly-secret',
  features: { one: 'true' },
  repository: {
    storageName: 'default',
    relativePath: '@hashed/1.git',
    glRepository: 'project-1',
    glProjectPath: 'group/1',
    gitObjectDirectory: '',
    gitAlternateObjectDirectories: ['other'],
  },
  defaultBranch: 'main',
})

/** Replicas on one clock that send messages to each other. */
class Cluster {
  readonly clock = new ManualClock()
  readonly replicas: Replica[] = []

  async add(t: { teardown(action: () => unknown): void }): Promise<Replica> {
    const replica = new Replica(this)
    await replica.known.start()
    t.teardown(() => replica.known.stop())
    for (const other of this.replicas) await Promise.all([other.reach(replica), replica.reach(other)])
    this.replicas.push(replica)
    return replica
  }

  /** Resolves when all messages have arrived. */
  async heard(): Promise<void> {
    this.clock.advance(1000)
    for (const { said } of this.replicas) await Promise.all(said.splice(0))
  }
}

class Replica {
  readonly said: Promise<unknown>[] = []
  /** size of each received message, in bytes */
  readonly came: number[] = []
  readonly lost: Agent[] = []
  readonly coordinates = new GitalyCoordinatesByProject()
  readonly answers: AnswerCache<Agent>
  readonly known: KnownTokens
  readonly #cluster: Cluster
  #greet: (peer: Peer) => Promise<void> = async () => undefined

  constructor(cluster: Cluster) {
    this.#cluster = cluster
    const { clock } = cluster
    this.answers = new AnswerCache<Agent>(
      { clock },
      {
        ttlMs,
        errorTtlMs: 60_000,
        isRefusal: (error) => error === refused,
        pauseMs: () => 0,
        onAnswer: (hash) => tokenAnswers.notify(hash),
        onLost: (value) => this.lost.push(value),
      },
    )
    const tokenAnswers = new GitlabTokenAnswers({ cache: this.answers, coordinates: this.coordinates })
    const peers = {
      broadcast: (_: unknown, request: object) => {
        const others = cluster.replicas.filter((each) => each !== this)
        const all = Promise.all(others.map((other) => other.hear(request)))
        this.said.push(all)
        return all
      },
      call: (to: string, _: unknown, request: object) => cluster.replicas[Number(to)]?.hear(request),
      onReached: (greet: (peer: Peer) => Promise<void>) => {
        this.#greet = greet
        return () => undefined
      },
    } as unknown as KnownTokensComponents['peers']
    this.known = new KnownTokens({ answers: tokenAnswers, peers, clock })
  }

  async reach(other: Replica): Promise<void> {
    const all = this.#cluster.replicas
    const instance = String(all.includes(other) ? all.indexOf(other) : all.length)
    if (!all.includes(other)) all.push(other)
    await this.#greet({ instance, name: instance } as Peer)
    if (all.at(-1) === other) all.pop()
  }

  async hear(request: object): Promise<void> {
    const bytes = toBinary(KnownTokensRequestSchema, create(KnownTokensRequestSchema, request))
    this.came.push(bytes.length)
    await this.known.replicaMethods.get(method)?.(bytes)
  }

  /** Passes on an answer of GitLab about this token. */
  async ask(token: string, answer: Agent | KasError): Promise<void> {
    const ask = async () => {
      if (answer instanceof KasError) throw answer
      return answer
    }
    await this.answers.get(tokenHash(token), ask, signal).catch(() => undefined)
  }

  async knows(token: string): Promise<Agent | undefined> {
    const unknown = new KasError({ code: 'GITLAB_BUSY', waitedMs: 0 })
    return await this.answers
      .get(
        tokenHash(token),
        async () => {
          throw unknown
        },
        signal,
      )
      .catch((error) => {
        if (error === unknown || error === refused) return undefined
        throw error
      })
  }
}

t.test('what GitLab said of a token at one replica the others need not ask', async (t) => {
  const cluster = new Cluster()
  const [one, other] = [await cluster.add(t), await cluster.add(t)]
  one.coordinates.learn(1n, coordinates('tcp://gitaly:8075'), cluster.clock.now())
  await one.ask('secret', agent(42))
  t.equal(await other.knows('secret'), undefined)
  await cluster.heard()
  t.same(await other.knows('secret'), agent(42))
  t.same(other.coordinates.repository(1n), coordinates('tcp://gitaly:8075'), 'and where its repository lies')
})

t.test('for no longer than where it was asked for', async (t) => {
  const cluster = new Cluster()
  const [one, other] = [await cluster.add(t), await cluster.add(t)]
  await one.ask('secret', agent(42))
  await cluster.heard()
  cluster.clock.advance(ttlMs - 4001)
  t.same(await other.knows('secret'), agent(42))
  cluster.clock.advance(1)
  t.equal(await other.knows('secret'), undefined, 'less what the way may take')
})

t.test('a replica that comes is told what is known, in messages of a bounded size', async (t) => {
  const cluster = new Cluster()
  const one = await cluster.add(t)
  const count = 1200
  for (let i = 0; i < count; i++) {
    one.coordinates.learn(BigInt(i), coordinates('tcp://gitaly:8075'), cluster.clock.now())
    await one.ask(`secret-${i}`, agent(i + 1, i))
  }
  cluster.clock.advance(ttlMs / 2)
  await new Promise(setImmediate) // a message that is sent meanwhile reaches nobody
  const other = await cluster.add(t)
  t.same(await other.knows(`secret-${count - 1}`), agent(count, count - 1))
  t.same(await other.knows('secret-0'), agent(1, 0))
  t.equal(other.came.length, 3)
  t.ok(Math.max(...other.came) < 500 * 400, `${Math.max(...other.came)} bytes`)
  cluster.clock.advance(ttlMs / 2)
  t.equal(await other.knows('secret-0'), undefined, 'as old as it is there')
})

t.test('a refusal is nobody else\u2019s, and what is kept no more is not told', async (t) => {
  const cluster = new Cluster()
  const [one, other] = [await cluster.add(t), await cluster.add(t)]
  await one.ask('secret', agent(42))
  await cluster.heard()
  cluster.clock.advance(ttlMs)
  await one.ask('secret', refused)
  t.same(one.lost, [agent(42)])
  await cluster.heard()
  t.same(other.lost, [], 'it asks when its own answer is over')
  t.equal(await other.knows('secret'), undefined)
})

t.test('a message that has waited long is as old as the clock says', async (t) => {
  const cluster = new Cluster()
  const [one, other] = [await cluster.add(t), await cluster.add(t)]
  await one.ask('secret', agent(42))
  const { hear } = other
  const late: (() => Promise<void>)[] = []
  other.hear = async (request) => void late.push(() => hear.call(other, request))
  await cluster.heard()
  cluster.clock.advance(ttlMs - 2000)
  for (const arrive of late) await arrive()
  t.same(await other.knows('secret'), agent(42))
  cluster.clock.advance(1000)
  t.equal(await other.knows('secret'), undefined)
})

t.test('what is older than what is known changes nothing', async (t) => {
  const cluster = new Cluster()
  const [one, other] = [await cluster.add(t), await cluster.add(t)]
  one.coordinates.learn(1n, coordinates('tcp://old:8075'), cluster.clock.now())
  await one.ask('secret', agent(42))
  cluster.clock.advance(500)
  other.coordinates.learn(1n, coordinates('tcp://new:8075'), cluster.clock.now())
  await other.ask('secret', refused)
  await Promise.all(one.said.splice(0))
  cluster.clock.advance(500)
  await Promise.all(one.said.splice(0))
  t.equal(await other.knows('secret'), undefined)
  t.match(other.coordinates.repository(1n), { address: 'tcp://new:8075' })
})

t.test('made-up tokens are not passed on', async (t) => {
  const cluster = new Cluster()
  const [one, other] = [await cluster.add(t), await cluster.add(t)]
  await one.ask('made up', refused)
  await cluster.heard()
  t.same(other.came, [])
})
