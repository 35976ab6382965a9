import t from 'tap'
import { watchesScene } from '../soak/watches/watches.ts'
import { assets, skip } from '../support/kubectl-stack.ts'

/** `npm run soak -- watches`, short. */

t.test('watches go on while the holder is killed and frozen', { skip, timeout: 220_000 }, async (t) => {
  const signal = AbortSignal.timeout(200_000)
  const say = (text: string) => t.comment(text)
  const { figures, failures } = await watchesScene({ say, signal }, { assets }, { kills: 2, freezes: 1, rate: 50 })
  for (const figure of figures) t.comment(figure)
  t.same(failures, [])
})
