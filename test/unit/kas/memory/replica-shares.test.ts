import t from 'tap'
import { memoryLimit, replicaShares } from '../../../../src/kas/memory/replica-shares.ts'
import { cacheBounds } from '../../../../src/kas/modules/gitops/file-cache.ts'
import { podLimit } from '../../../../src/lib/pod-limit.ts'

const MiB = 2 ** 20
/** memory of kas itself, see doc/operate/operations.md */
const ownBytes = 200 * MiB
/** GitOps states of all agents */
const stateBytes = 64 * MiB
/** largest source within the default limits */
const source = { maxFiles: 1000, maxTotalBytes: 20 * MiB }

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

t.test('shares are parts of the limit, and what waits leaves more than half of it', async (t) => {
  for (const limit of [64 * MiB, 256 * MiB, 1024 * MiB]) {
    const { unreadBytes, callersBytes } = replicaShares(limit)
    t.same([unreadBytes, callersBytes], [limit / 8, limit / 4])
    t.ok(unreadBytes + callersBytes < limit / 2)
  }
})

for (const podMiB of [256, 512, 1024, 4096])
  t.test(`all parts together have room in a pod of ${podMiB} MiB`, async (t) => {
    const shares = replicaShares(memoryLimit(podMiB * MiB))
    const parts = Object.values(shares).reduce((sum, bytes) => sum + bytes, 0)
    t.ok(parts + stateBytes < podMiB * MiB)
    t.ok(shares.gitopsRoundsBytes >= source.maxTotalBytes, 'a round of the largest source is within its part')
    if (podMiB < 1024) return
    t.ok(parts + stateBytes + ownBytes < podMiB * MiB, 'beside kas itself')
    const { maxBytesOfProject } = cacheBounds({ ...source, keptBytes: shares.gitopsFilesBytes })
    t.ok(maxBytesOfProject > source.maxTotalBytes, 'the largest source is kept whole')
  })
