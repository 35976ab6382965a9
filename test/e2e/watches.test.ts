import t from 'tap'
import { informerProgram } from '../soak/watches/informer.ts'
import { watchesScene } from '../soak/watches/watches.ts'
import { assets, skip } from '../support/kubectl-stack.ts'
import { patience } from '../support/slowness.ts'

/** faults of `npm run soak -- watches`, a short run with fewer changes a second */

const faults = { kills: 1, freezes: 1, pods: 1, restarts: 1, entries: 1, rate: 5 }
/** built before the time limit of the test begins */
const informer = skip ? { missing: skip } : await informerProgram()

t.test(
  'watches go on while what carries them is killed, frozen and replaced',
  { skip, timeout: 220_000 },
  async (t) => {
    const signal = AbortSignal.timeout(patience(200_000))
    const say = (text: string) => t.comment(text)
    const { figures, failures } = await watchesScene({ say, signal }, { assets }, faults)
    for (const figure of figures) t.comment(figure)
    t.same(failures, [])
    await t.test('an informer of client-go too', { skip: 'missing' in informer && informer.missing }, async (t) => {
      t.match(
        figures.find((figure) => figure.startsWith('a client-go informer: saw')),
        /saw \d{3,}/,
      )
    })
  },
)
