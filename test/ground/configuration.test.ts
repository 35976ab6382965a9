import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse, stringify } from 'yaml'
import { driftPolicy } from '../../src/agentk/modules/gitops/source-options.ts'
import { clusterTexts } from '../../src/kas/config/cluster-texts.ts'
import { parseKasConfig } from '../../src/kas/config/kas-config.ts'
import { kasConfigSchema } from '../../src/kas/config/kas-schema.ts'
import { unusedKeys } from '../../src/kas/config/unused-keys.ts'
import { parseFieldPath } from '../../src/proto/gitops/field-path.ts'
import { maxDriftLength, maxIgnoreRules } from '../../src/proto/gitops/limits.ts'
import { type DriftBlock, sourceSchema } from '../../src/proto/gitops/schema.ts'
import { leafKeys } from '../support/leaf-keys.ts'

/**
 * doc/reference/configuration.md names every key with its true default, and those of a source's drift. kas reads every
 * key of upstream.
 */

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

const tablesIn = (text: string) =>
  [...text.matchAll(/(?:^\|.*\|\n)+/gm)].map(([table]): Table => {
    const [head = '', , ...lines] = table.trim().split('\n')
    const [title = '', column = ''] = cellsOf(head)
    return { title, column, rows: lines.map(cellsOf) }
  })
const tables = tablesIn(document)

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

t.test('drift: every key is told with its default and its bounds', async (t) => {
  const rows = tables.find(({ title }) => title === 'Key of `drift`')?.rows ?? []
  const keys = leafKeys(sourceSchema).filter((key) => key.startsWith('drift.'))
  t.strictSame(
    rows.map(([key]) => `drift.${quoted(key)[0]}`),
    keys,
  )
  const texts = rows.map(([key, absent]) => [quoted(key)[0] as string, parse(quoted(absent)[0] ?? '')] as const)
  const told = Object.fromEntries(texts) as DriftBlock
  t.strictSame({ ...driftPolicy(told), removesAdded: false }, driftPolicy(undefined))
  const isTaken = (drift: object) => sourceSchema.safeParse({ drift }).success
  t.ok(isTaken(told))
  for (const [key = '', , allowed] of rows.filter(([key]) => ['after', 'scan'].includes(quoted(key)[0] ?? ''))) {
    const [min = '', max = ''] = quoted(allowed)
    const [name = ''] = quoted(key)
    for (const [text, isAllowed] of [
      [min, true],
      [max, true],
      [`${Number.parseInt(max, 10) + 1}s`, false],
      [`${Number.parseInt(min, 10) - 1}s`, false],
    ] as const)
      t.equal(isTaken({ [name]: text }), isAllowed, `${name}: ${text}`)
  }
  t.match(document, `up to ${maxIgnoreRules} rules`)
  t.match(document, `at most ${maxDriftLength} characters as JSON`)
})

t.test('drift: every form of a rule that is told can be used', async (t) => {
  const rows = tables.find(({ title }) => title === 'Key of a rule')?.rows ?? []
  t.ok(rows.length > 10)
  for (const [key, forms] of rows) {
    const [name = ''] = quoted(key)
    for (const form of quoted(forms)) {
      const rule = { paths: ['.spec'], [name]: [form] }
      t.ok(sourceSchema.safeParse({ drift: { ignore: [rule] } }).success, form)
      if (name === 'paths') t.notOk('problem' in parseFieldPath(form), form)
    }
  }
})

t.test('the guide names every key of a source', async (t) => {
  const [table] = tablesIn(read('doc/guide/gitops.md')).filter(({ title }) => title === 'Key of a source')
  const named = table?.rows.flatMap(([key]) => quoted(key)) ?? []
  t.strictSame(named.sort(), Object.keys(sourceSchema.shape).sort())
})
