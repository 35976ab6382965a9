import { setImmediate } from 'node:timers/promises'
import { create, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import { memoryLimit, replicaShares } from '../../../../../src/kas/memory/replica-shares.ts'
import { createGitops } from '../../../../../src/kas/modules/gitops/module.ts'
import { getObjectsMethod } from '../../../../../src/kas/modules/gitops/objects-to-synchronize.ts'
import type { CommitId } from '../../../../../src/kas/repositories/repositories.ts'
import { collectAll } from '../../../../../src/lib/v8.ts'
import { ObjectsToSynchronizeRequestSchema } from '../../../../../src/proto/gen/gitops_pb.ts'
import { FakeAgentCall } from '../../../../support/fake-agent-call.ts'
import { bareDirectory, fakeHost } from '../../../../support/fake-host.ts'

const MiB = 2 ** 20
const commit = '1'.repeat(40) as CommitId
const message = toBinary(
  ObjectsToSynchronizeRequestSchema,
  create(ObjectsToSynchronizeRequestSchema, {
    projectId: 'apps/web',
    paths: [{ path: { case: 'glob', value: '**' } }],
  }),
)

/**
 * Starts the module in a pod of `podMiB` MiB, with the default limits. Each agent stalls until the test releases it.
 */
function start(podMiB: number) {
  const host = fakeHost()
  const { trees } = host.repositories
  const listings: WeakRef<object>[] = []
  const held = { listings: 0 }
  const files = async () => {
    const listing = [{ path: 'a.yaml', blob: 'ab'.repeat(20) }]
    listings.push(new WeakRef(listing))
    return listing
  }
  const blobs = async () => {
    await setImmediate()
    collectAll()
    held.listings = Math.max(held.listings, listings.filter((each) => each.deref()).length)
    return [Buffer.from('a: 1')]
  }
  const shares = replicaShares(memoryLimit(podMiB * MiB))
  const module = createGitops(
    {
      ...host,
      directory: { ...bareDirectory, readableProject: async () => ({ id: 9n, path: 'apps/web' }) },
      repositories: { ...host.repositories, trees: { ...trees, head: async () => commit, files, blobs } },
    },
    {
      pollMs: 1000,
      maxPaths: 100,
      maxFiles: 1000,
      maxFileBytes: 5 * MiB,
      maxTotalBytes: 20 * MiB,
      roundsBytes: shares.gitopsRoundsBytes,
      keptBytes: shares.gitopsFilesBytes,
    },
  )
  const { serve } = module.agentMethods?.[getObjectsMethod] ?? {}
  const ask = (agent: number, project: number) => {
    const id = BigInt(agent) as AgentId
    const call = new FakeAgentCall({
      agent: { id, name: `agent-${agent}`, project: { id: BigInt(project), path: `tenants/${project}` } },
      messages: [message],
    })
    const go = call.stall()
    void call.servedBy(async (own) => await serve?.(own))
    return { call, go, runs: () => call.sent.length > 0 }
  }
  const settle = async () => {
    for (let i = 0; i < 20; i++) await setImmediate()
  }
  return { ask, settle, held }
}

for (const [podMiB, rounds] of [
  [256, 1],
  [512, 2],
  [1024, 5],
  [4096, 20],
] as const)
  t.test(`in a pod of ${podMiB} MiB so many rounds of 20 MiB run at once: ${rounds}`, async (t) => {
    const { ask, settle } = start(podMiB)
    const all = Array.from({ length: 40 }, (_, i) => ask(i, i))
    while (all.filter(({ runs }) => runs()).length < rounds) await settle()
    await settle()
    t.equal(all.filter(({ runs }) => runs()).length, rounds)
  })

t.test('a round lets its listing go before it reads files', async (t) => {
  const { ask, settle, held } = start(1024)
  const { runs } = ask(1, 1)
  while (!runs()) await settle()
  t.equal(held.listings, 0)
})

t.test('rounds of a tenant with many agents take turns with those of others', async (t) => {
  const { ask, settle } = start(1024)
  const crowd = Array.from({ length: 60 }, (_, i) => [ask(i, 1), ask(i, 1)]).flat()
  await settle()
  const other = ask(1000, 2)
  await settle()
  const running = crowd.filter(({ runs }) => runs())
  t.equal(running.length, 5)
  t.notOk(other.runs())
  for (const { go } of running.slice(0, 2)) go()
  await settle()
  t.ok(other.runs(), 'of two places that are free one is for the other tenant')
})
