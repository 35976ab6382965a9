import t from 'tap'
import { readLabelQuery } from '../../../../../../src/agentk/modules/views/tree/label-query.ts'

const labels = new Map([
  ['app', 'web'],
  ['tier', 'front'],
  ['app.kubernetes.io/name', 'shop'],
  ['empty', ''],
])

t.test('what kubectl selects is selected', async (t) => {
  const cases: [text: string, isSelected: boolean][] = [
    ['app=web', true],
    ['app==web,tier!=back', true],
    ['app = web , tier != front', false],
    ['app in (web, api)', true],
    ['app notin (web,api),tier', false],
    ['zone notin (a)', true],
    ['zone!=a', true],
    ['!zone', true],
    ['zone', false],
    ['app.kubernetes.io/name=shop', true],
    ['empty=', true],
    ['app=', false],
    ['tier,app in (x,web),!canary', true],
  ]
  for (const [text, isSelected] of cases) t.equal(readLabelQuery(text, '"labels"')?.(labels), isSelected, text)
})

t.test('what is no selector is refused', async (t) => {
  t.equal(readLabelQuery('', '"labels"'), undefined, 'none')
  const cases = ['a=b,', 'a in b', 'a in (b', '=x', 'a=b=c', '-a', 'a>1', 'x'.repeat(5000)]
  const refused = { code: 'BAD_REQUEST', message: /"labels" is a selector/ }
  for (const text of cases) t.throws(() => readLabelQuery(text, '"labels"'), refused, text.slice(0, 20))
})
