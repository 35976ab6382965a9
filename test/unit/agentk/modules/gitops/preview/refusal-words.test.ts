import t from 'tap'
import { refusalText } from '../../../../../../src/agentk/modules/gitops/preview/refusal-words.ts'

const problem = { kind: 'invalid', text: 'admission webhook "w" denied the request: it was planted before' } as const

t.test('the text of a refusal is for callers who may patch the object, and asked for live values', async (t) => {
  t.equal(refusalText(problem, { mayPatch: true, values: true }), problem.text)
  for (const [mayPatch, values, hint] of [
    [true, false, /shown with values/],
    [false, true, /the right to patch it/],
    [false, false, /the right to patch it/],
  ] as const) {
    const text = refusalText(problem, { mayPatch, values })
    t.notMatch(text, /planted|webhook/)
    t.match(text, /^the API server refuses it: /)
    t.match(text, hint)
  }
})
