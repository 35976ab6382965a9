import { globSync, readFileSync } from 'node:fs'
import { findPackageJSON, stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import t from 'tap'
import { packageImports } from '../support/package-imports.ts'

const root = join(import.meta.dirname, '..', '..')
const read = (name: string) => readFileSync(join(root, name), 'utf8')

interface Locked {
  version: string
  dev?: boolean
  cpu?: string[]
  integrity?: string
  resolved?: string
  hasInstallScript?: boolean
  optional?: boolean
  os?: string[]
}
const manifest = JSON.parse(read('package.json')) as Record<string, Record<string, string> | undefined>
const locked = Object.entries((JSON.parse(read('package-lock.json')) as { packages: Record<string, Locked> }).packages)

const namesOf = (kind: string) => Object.keys(manifest[kind] ?? {})

const nodes = namesOf('optionalDependencies')

t.test('an import is found however it is written', async (t) => {
  const folder = t.testdir({
    'a.ts': [
      "import one, {\n  type Two,\n} from 'one'",
      "export * from '@two/two/deep'",
      "import 'three'",
      "const four = import('four/deep')",
      'const five = createRequire(import.meta.url)',
      "const six = require('six')",
      "const seven = import.meta.resolve('seven/package.json')",
      "import type { Eight } from 'eight'",
      "let nine: import('nine').Nine",
      "import { type Ten } from 'ten'",
      "import { readFileSync } from 'node:fs'\nimport { join } from 'path'\nimport { b } from './b.ts'",
      "/**\n * Like import('eleven').\n */\n// import 'twelve'",
      "promise.resolve('thirteen')",
    ].join('\n'),
    b: { 'b.ts': "import 'three'\nimport { eight } from 'eight'" },
  })
  const { runtime, types } = packageImports(folder)
  t.strictSame([...runtime.keys()].sort(), ['@two/two', 'eight', 'four', 'one', 'seven', 'six', 'ten', 'three'])
  t.strictSame(runtime.get('three'), ['a.ts', 'b/b.ts'])
  t.strictSame([...types], [['nine', ['a.ts']]])
  t.throws(() => packageImports(t.testdir({ 'a.ts': 'await import(name)' })), /a\.ts imports what is not written/)
})

t.test('the dependencies are exactly the packages that src imports', async (t) => {
  const { runtime, types } = packageImports(join(root, 'src'))
  const missing = (imports: typeof runtime, kinds: string[]) =>
    [...imports]
      .filter(([name]) => !kinds.flatMap(namesOf).includes(name))
      .map(([name, files]) => `${name} is not in ${kinds.join(' or ')}; src/${files.join(', src/')} imports it`)
  t.strictSame(missing(runtime, ['dependencies']), [])
  t.strictSame(missing(types, ['dependencies', 'devDependencies']), [], 'those of which only types are imported')
  const unused = namesOf('dependencies').filter((name) => !runtime.has(name))
  t.strictSame(
    unused.map((name) => `${name} is in dependencies, and no code of src imports it`),
    [],
  )
})

t.test('of a package of CommonJS, code that runs imports the default alone', async (t) => {
  const found: string[] = []
  for (const file of globSync('src/**/*.ts', { cwd: root })) {
    for (const [line, name = ''] of stripTypeScriptTypes(read(file)).matchAll(/^.*\bimport\('([^'.][^']*)'\).*$/gm)) {
      const url = import.meta.resolve(name)
      const { type } = JSON.parse(readFileSync(findPackageJSON(url) ?? '', 'utf8')) as { type?: string }
      if (type === 'module' || url.endsWith('.mjs')) continue
      found.push(name)
      t.match(line, /\bdefault\b/, `${file}: a bundle has no names of ${name}`)
    }
  }
  t.strictSame(found.sort(), ['@peculiar/x509', 'undici'])
})

/**
 * Returns names and patterns such as `@libp2p/*` in the first column of CONTRIBUTING's tables of dependencies, by
 * table.
 */
function readmeTables(): string[][] {
  const [, part = ''] =
    /<!-- dependencies: begin -->(.*)<!-- dependencies: end -->/s.exec(read('CONTRIBUTING.md')) ?? []
  const tables = part.trim().split('\n\n')
  return tables.map((table) => [...table.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, cell = '']) => ticked(cell)))
}
const ticked = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)
const isMeant = (pattern: string, name: string) =>
  pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern

t.test('CONTRIBUTING names each dependency where it belongs, and none that is gone', async (t) => {
  const tables = readmeTables()
  t.equal(tables.length, 2)
  const kinds = [namesOf('dependencies'), [...namesOf('devDependencies'), ...nodes]]
  for (const [i, names] of kinds.entries()) {
    const patterns = tables[i] ?? []
    t.strictSame(
      names.filter((name) => !patterns.some((pattern) => isMeant(pattern, name))),
      [],
      `not in table ${i + 1}`,
    )
    t.strictSame(
      patterns.filter((pattern) => !names.some((name) => isMeant(pattern, name))),
      [],
      `only in table ${i + 1}`,
    )
  }
})

t.test('every direct dependency has an exact version', async (t) => {
  for (const kind of ['dependencies', 'optionalDependencies', 'devDependencies']) {
    for (const [name, version] of Object.entries(manifest[kind] ?? {})) t.match(version, /^\d+\.\d+\.\d+$/, name)
  }
})

t.test('the lock file names no registry, and holds a hash of all that this platform may install', async (t) => {
  for (const [path, { resolved, integrity, optional }] of locked) {
    if (path === '') continue
    t.equal(resolved, undefined, path)
    if (!optional) t.match(integrity, /^sha512-/, path)
  }
})

t.test('each dependency of the programs fits every platform', async (t) => {
  const left = nodes.map((name) => `node_modules/${name}`)
  for (const [path, { dev, os, cpu }] of locked) {
    if (path !== '' && !dev && !left.includes(path)) t.strictSame([os, cpu], [undefined, undefined], path)
  }
})

/** scripts that set-up never runs; they would check for a binary or print advice */
const unused = ['node_modules/@bufbuild/buf', 'node_modules/core-js', 'node_modules/esbuild', 'node_modules/protobufjs']

t.test('no other dependency brings an install script', async (t) => {
  const scripted = locked.filter(([, { hasInstallScript }]) => hasInstallScript).map(([path]) => path)
  t.strictSame(scripted, unused)
})

t.test('set-up installs without scripts', async (t) => {
  t.match(read('dev/setup/install.mjs'), /'--ignore-scripts'/)
})
