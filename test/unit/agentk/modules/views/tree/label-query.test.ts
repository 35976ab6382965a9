import t from 'tap'
import { compileSelector } from '../../../../../../src/agentk/modules/views/projection/selectors.ts'
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
  for (const [text, isSelected] of cases) {
    const selector = readLabelQuery(text)
    t.equal(selector && compileSelector(selector)(labels), isSelected, text)
  }
})

t.test('what is no selector is none', async (t) => {
  const cases = ['', 'a=b,', 'a in b', 'a in (b', '=x', 'a=b=c', '-a', 'a>1', 'x'.repeat(5000)]
  for (const text of cases) t.equal(readLabelQuery(text), undefined, text.slice(0, 20))
})
