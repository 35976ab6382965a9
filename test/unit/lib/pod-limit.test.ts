import t from 'tap'
import { podLimit } from '../../../src/lib/pod-limit.ts'

const limits: readonly (readonly [name: string, constrained: number, limit: number])[] = [
  ['no cgroup', 0, 0],
  ['cgroup v1 without a limit, as the kernel says it', Number(2n ** 63n - 4096n), 0],
  ['cgroup v1 without a limit, as node says it', Number(2n ** 64n - 1n), 0],
  ['cgroup v2 with "max", as node says it', 2 ** 64, 0],
  ['a limit', 2 ** 30, 2 ** 30],
]
for (const [name, constrained, limit] of limits)
  t.test(`the limit of a pod: ${name}`, async (t) => {
    t.equal(podLimit(constrained), limit)
  })
