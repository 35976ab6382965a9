import t from 'tap'
import { exactlyOnce } from '../soak/exactly-once/exactly-once.ts'
import { assets, skip } from '../support/kubectl-stack.ts'

/**
 * Each fault of `npm run soak -- exactly-once` once: kill and freeze of holder and entry, with a request in the
 * cluster.
 */

const times = 4

t.test(
  'kubectl create and exec, while replicas on their way are killed and frozen',
  { skip, timeout: 220_000 },
  async (t) => {
    const signal = AbortSignal.timeout(200_000)
    const { figures, failures } = await exactlyOnce(
      { say: (text) => t.comment(text), signal },
      { assets },
      { times, seed: 1 },
    )
    for (const figure of figures) t.comment(figure)
    t.same(failures, [])
    t.match(figures[1], `${times} of them came while a request was in the cluster`)
    t.match(figures[2], `${3 * times} calls of kubectl`)
  },
)
