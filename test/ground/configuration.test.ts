import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse, stringify } from 'yaml'
import { clusterTexts } from '../../src/kas/config/cluster-texts.ts'
import { parseKasConfig } from '../../src/kas/config/kas-config.ts'
import { kasConfigSchema } from '../../src/kas/config/kas-schema.ts'
import { unusedKeys } from '../../src/kas/config/unused-keys.ts'
import { leafKeys } from '../support/leaf-keys.ts'

/** doc/reference/configuration.md names every key with its true default. kas reads every key of upstream. */

const root = join(import.meta.dirname, '../..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const document = read('doc/reference/configuration.md')

interface Table {
  readonly title: string
  readonly column: string
  readonly rows: readonly (readonly string[])[]
}

const cellsOf = (line: string) =>
  line
    .slice(1, -1)
    .split('|')
    .map((cell) => cell.trim())
const quoted = (cell = '') => [...cell.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text)

const tables = [...document.matchAll(/(?:^\|.*\|\n)+/gm)].map(([text]): Table => {
  const [head = '', , ...lines] = text.trim().split('\n')
  const [title = '', column = ''] = cellsOf(head)
  return { title, column, rows: lines.map(cellsOf) }
})

/** keys with an effect according to the tables, with the text of their defaults */
const told = tables
  .filter(({ column }) => column === 'Default')
  .flatMap(({ title, rows }) =>
    rows.flatMap(([keys, defaults]) => {
      const texts = quoted(defaults)
      return quoted(keys).map((key, i) => ({ key: [...quoted(title), key].join('.'), text: texts[i] }))
    }),
  )

const ready = { directory: { file: '/d.yaml' }, agent: { kubernetes_api: {} } }

/** Returns `ready` with the values at the dotted paths. */
function withValues(values: readonly (readonly [key: string, value: unknown])[]): object {
  const tree = structuredClone(ready) as Record<string, unknown>
  for (const [key, value] of values) {
    const path = key.split('.')
    const last = path.pop() as string
    const parent = path.reduce((block, name) => {
      block[name] ??= {}
      return block[name] as Record<string, unknown>
    }, tree)
    parent[last] = value
  }
  return tree
}

t.test('every key is told, once, and no other', async (t) => {
  t.strictSame(told.map(({ key }) => key).sort(), leafKeys(kasConfigSchema).sort())
})

t.test('defaults are those that are told', async (t) => {
  const defaults = parseKasConfig('defaults', stringify(ready)).config
  const values = told.flatMap(({ key, text }) => (text === undefined ? [] : [[key, parse(text)] as const]))
  t.strictSame(parseKasConfig('doc', stringify(withValues(values))).config, defaults)
  const defaultOf = (key: string) =>
    key.split('.').reduce<unknown>((value, name) => (value as Record<string, unknown> | undefined)?.[name], defaults)
  for (const { key, text } of told) {
    if (key !== 'directory.file') t.equal(defaultOf(key) !== undefined, text !== undefined, key)
  }
})

t.test('keys without effect are told with their reasons', async (t) => {
  const [table] = tables.filter(({ column }) => column === 'Why')
  t.strictSame(Object.fromEntries(table?.rows.map(([key, why]) => [quoted(key)[0], why]) ?? []), unusedKeys)
})

t.test('variables of the environment are told', async (t) => {
  const source = globSync('src/kas/config/*.ts', { cwd: root }).map(read).join('\n')
  const fixed = source.match(/(?<=')(KAS|POD|OWN_PRIVATE_API)_[A-Z_]+(?=')/g) ?? []
  const names = [...fixed, ...Object.keys(clusterTexts).map((key) => `KAS_CLUSTER_${key.toUpperCase()}`)]
  t.ok(names.length > 12)
  const table = tables.filter(({ title }) => title === 'Variable').flatMap(({ rows }) => rows.flat())
  for (const name of new Set(names)) t.ok(table.flatMap(quoted).includes(name), name)
})

// wire: config.*
t.test('every key of upstream is read: used, or named with the reason', async (t) => {
  const { warnings } = parseKasConfig('upstream.yaml', read('test/support/stock-configuration/upstream.yaml'))
  t.strictSame(
    warnings,
    Object.entries(unusedKeys).map(([key, hint]) => ({ kind: 'unused', key, hint })),
  )
})
