import t from 'tap'
import { memoryLimit, replicaShares } from '../../../../src/kas/memory/replica-shares.ts'
import { podLimit } from '../../../../src/lib/pod-limit.ts'

const MiB = 2 ** 20

const limits: readonly (readonly [name: string, constrained: number, limit: number])[] = [
  ['no cgroup', 0, 256 * MiB],
  ['cgroup v1 without a limit, as the kernel says it', Number(2n ** 63n - 4096n), 256 * MiB],
  ['cgroup v1 without a limit, as node says it', Number(2n ** 64n - 1n), 256 * MiB],
  ['cgroup v2 with "max", as node says it', 2 ** 64, 256 * MiB],
  ['the limit of the chart', 1024 * MiB, 1024 * MiB],
  ['a small one', 128 * MiB, 128 * MiB],
  ['one that is too small for kas', 8 * MiB, 64 * MiB],
  ['a large machine', 512 * 1024 * MiB, 512 * 1024 * MiB],
]
for (const [name, constrained, limit] of limits)
  t.test(`the memory of a replica: ${name}`, async (t) => {
    t.equal(memoryLimit(podLimit(constrained)), limit)
  })

t.test('shares are parts of the limit, and leave more than half of it to kas itself', async (t) => {
  for (const limit of [64 * MiB, 256 * MiB, 1024 * MiB]) {
    const { unreadBytes, callersBytes } = replicaShares(limit)
    t.same([unreadBytes, callersBytes], [limit / 8, limit / 4])
    t.ok(unreadBytes + callersBytes < limit / 2)
  }
})
