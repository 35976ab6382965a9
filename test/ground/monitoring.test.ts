import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { dashboard, rules } from '../support/monitoring/files.ts'
import { selectorsOf } from '../support/monitoring/selectors.ts'

/** deploy/monitoring agrees with doc/. test/e2e/monitoring.test.ts compares it with the running programs. */

const root = join(import.meta.dirname, '../..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')

t.test('doc/operate/operations.md has a row for each alert', async (t) => {
  const [, section = ''] = read('doc/operate/operations.md').split('\n## Alerts\n')
  const named = [...section.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name)
  t.strictSame(
    named,
    rules.map(({ alert }) => alert),
  )
})

t.test('each alert says what is wrong, what to do, and where it is told', async (t) => {
  for (const { alert, for: length, labels, annotations } of rules) {
    t.match(length, /^\d+m$/, alert)
    t.match(labels.severity, /^(critical|warning)$/, alert)
    for (const name of ['summary', 'description', 'runbook']) t.ok(annotations[name], `${alert}: ${name}`)
    const [file = '', heading = ''] = annotations.runbook?.split('#') ?? []
    t.ok(existsSync(join(root, file)), `${alert}: ${file}`)
    const headings = [...read(file).matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
      title
        .toLowerCase()
        .replaceAll(/[^\w -]/g, '')
        .replaceAll(' ', '-'),
    )
    t.ok(heading === '' || headings.includes(heading), `${alert}: ${annotations.runbook}`)
  }
})

t.test('the dashboard has panels with targets, side by side', async (t) => {
  const ids = dashboard.panels.map(({ id }) => id)
  t.equal(new Set(ids).size, ids.length)
  const taken = new Set<string>()
  for (const { title, type, gridPos, targets = [] } of dashboard.panels) {
    t.ok(type === 'row' || targets.length > 0, title)
    t.ok(gridPos.x + gridPos.w <= 24, title)
    const place = `${gridPos.x} ${gridPos.y}`
    t.notOk(taken.has(place), title)
    taken.add(place)
  }
})

t.test('what an expression asks for', async (t) => {
  const expression = 'sum by (code) (rate(a_total{code=~"X|Y",job!="b"}[5m])) > 0 or absent(b) unless c_count offset 5m'
  t.strictSame(selectorsOf(expression), [
    {
      metric: 'a_total',
      matchers: [
        { label: 'code', values: ['X', 'Y'] },
        { label: 'job', values: ['b'] },
      ],
    },
    { metric: 'b', matchers: [] },
    { metric: 'c_count', matchers: [] },
  ])
})
