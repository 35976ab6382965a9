import t from 'tap'
import { parse } from 'yaml'
import { listText } from '../../../../../../../src/kas/modules/views/cli/list-text.ts'
import { ProgramOutput } from '../../../../../../../src/kas/modules/views/cli/output/program-output.ts'
import { listItems, objectView } from '../../../../../../../src/kas/modules/views/cli/output/program-view.ts'
import { ShownView } from '../../../../../../../src/kas/modules/views/cli/shown-view.ts'
import { Paint } from '../../../../../../../src/kas/modules/views/cli/verdict-text.ts'
import { isPrintable } from '../../../../../../../src/lib/printable.ts'
import { PrintableOutput } from '../../../../../../../src/lib/printable-output.ts'
import type { Row } from '../../../../../../../src/proto/views-json.ts'
import { hostileNames, steering } from '../../../../../../support/hostile-texts.ts'
import { checkedOutput } from '../../../../../../support/output-schema.ts'

/** length of one name */
const maxCharacters = 500

/** Names with each character that steers a terminal, is invisible or is half a surrogate pair; then lookalikes. */
function allNames(): string[] {
  const signs = Array.from({ length: 0x110000 }, (_, point) => String.fromCodePoint(point)).filter(
    (sign) => !isPrintable(sign),
  )
  const names: string[] = []
  for (let i = 0; i < signs.length; i += maxCharacters) {
    // a letter separates two surrogate halves, which would form a whole character
    names.push(`a${signs.slice(i, i + maxCharacters).join('a')}`)
  }
  return [
    ...names,
    ...Object.values(hostileNames),
    '"',
    "'",
    '\\',
    '#',
    ': ',
    '- ',
    '~',
    'null',
    'true',
    '1e3',
    '{}',
    '',
  ]
}

async function printed(rows: readonly Row[], output: 'json' | 'yaml'): Promise<string> {
  const model = new ShownView()
  const order = rows.map(({ u }) => u)
  const state = { is: 'live', since: 1 } as const
  model.apply({ seq: 1, at: 1, rows, pages: { '': { order, counts: {}, more: 0 } }, state })
  let text = ''
  const stdout = new PrintableOutput({ write: (chunk) => (text += chunk) })
  const view = objectView({ items: listItems, counts: ({ counts }) => counts })
  const program = new ProgramOutput(stdout, view, { output, isWatching: false })
  await program.printList(model, 1, { agentId: '42', problems: [] })
  return text
}

const names = allNames()
const rows = names.map((name, i): Row => {
  const z = { kind: name, namespace: name, name, id: name, reason: name, text: name, next: name }
  return { u: `p${i}`, k: 'Pod', ns: name, n: name, h: ['', 'Current', 'Degraded'], f: [name], z }
})

t.test('JSON and YAML have each hostile name whole, and steer no terminal', async (t) => {
  t.ok(names.length > 10)
  for (const output of ['json', 'yaml'] as const) {
    const text = await printed(rows, output)
    t.strictSame(steering(text), [], output)
    t.match(checkedOutput(text, output), { kind: 'ObjectList' })
    const { items } = (output === 'yaml' ? parse(text) : JSON.parse(text)) as { items: Record<string, unknown>[] }
    t.strictSame(
      items.map(({ name = '', reason = '', facts }) => [name, reason, facts]),
      names.map((name) => [name, name, [name]]),
      `${output}: nothing of a name is lost`,
    )
  }
})

t.test('a table has each hostile name on its own line, and steers no terminal', async (t) => {
  const model = new ShownView()
  const order = rows.map(({ u }) => u)
  model.apply({ seq: 1, at: 1, rows, pages: { '': { order, counts: {}, more: 0 } } })
  const layout = { paint: new Paint(false), now: 1, columns: Number.POSITIVE_INFINITY, isVerbose: false }
  let text = ''
  const stdout = new PrintableOutput({ write: (chunk) => (text += chunk) })
  stdout.draw(listText(model, layout, { namespace: true, kind: true, wide: true }))
  t.strictSame(steering(text), [])
  t.equal(text.split('\n').length, rows.length + 2, 'a head, a line each, and the end of the last')
})
