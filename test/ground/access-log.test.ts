import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { accessLineSchema, bounds, callerKinds, lineEvents } from '../../src/kas/access-log/access-line.ts'
import { lineRules } from '../../src/kas/access-log/line-rules.ts'
import { maxRecentBytes, maxRecentLines } from '../../src/kas/access-log/recent-lines.ts'
import { maxStrangers } from '../../src/kas/access-log/refused-strangers.ts'
import { defaultLineRules, lineClasses } from '../../src/kas/config/access-log.ts'
import { askedNames } from '../../src/kubernetes/request/asked-identity.ts'

/** doc/reference/access-log.md names every field, event and class, with the defaults. */

const document = readFileSync(join(import.meta.dirname, '../../doc/reference/access-log.md'), 'utf8')
const [fields = [], classes = []] = ['## Fields', '## How much'].map((title) => {
  const section = document.slice(document.indexOf(`${title}\n`)).split('\n## ')[0] ?? ''
  const rows = section.split('\n').filter((line) => line.startsWith('| `'))
  return rows.map((line) =>
    line
      .slice(1, -1)
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim()),
  )
})
const quoted = (cell = '') => [...cell.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text)
const rowOf = (name: string) => fields.find(([names]) => quoted(names).includes(name))?.[1]

t.test('every field, once, and no other', async (t) => {
  t.strictSame(fields.flatMap(([names]) => quoted(names)).sort(), Object.keys(accessLineSchema.shape).sort())
  t.strictSame(quoted(rowOf('caller')), ['kind', ...callerKinds, 'id', 'name', 'project', 'job', 'pipeline'])
})

t.test('every event and class', async (t) => {
  const events = quoted(rowOf('event')).filter((text) => (lineEvents as readonly string[]).includes(text))
  t.strictSame(events.toSorted(), lineEvents.toSorted())
  t.strictSame(quoted(rowOf('class')), [...lineClasses])
  const isLogged = lineRules(defaultLineRules)
  t.strictSame(
    classes.map(([name, , byDefault]) => [quoted(name)[0], byDefault]),
    lineClasses.map((name) => [name, isLogged({ class: name }) ? 'written' : 'not']),
  )
})

t.test('bounds that it names', async (t) => {
  t.match(document, `${bounds.command} characters at the most`)
  t.match(rowOf('user_agent'), `${bounds.userAgent} characters`)
  t.match(rowOf('asked_as'), `${askedNames.count} at most, of ${askedNames.characters} characters each`)
  t.match(document, `beyond ${maxStrangers.toLocaleString('en')} of them`)
  t.match(document, `${maxRecentLines.toLocaleString('en')} lines, ${maxRecentBytes / 1024 / 1024} MiB at the most`)
})

t.test('its example is a line', async (t) => {
  const [, example = ''] = /```json\n(.*)\n```/.exec(document) ?? []
  const line = JSON.parse(example.replace('6f8b…', '6f8b7c1e-0f4e-4a52-9c55-0d3d2a8f5a01'))
  t.equal(accessLineSchema.safeParse(line).error, undefined)
})
