import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '..', '..')
const read = (name: string) => readFileSync(join(root, name), 'utf8')

interface Locked {
  version: string
  integrity?: string
  resolved?: string
  hasInstallScript?: boolean
  optional?: boolean
  os?: string[]
}
const manifest = JSON.parse(read('package.json')) as Record<string, Record<string, string> | undefined>
const locked = Object.entries((JSON.parse(read('package-lock.json')) as { packages: Record<string, Locked> }).packages)

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

/** Scripts that set-up never runs, and what they would do: look whether a binary is there; print advice. */
const unused = ['node_modules/@bufbuild/buf', 'node_modules/core-js', 'node_modules/protobufjs']

t.test('no other dependency brings an install script', async (t) => {
  const scripted = locked.filter(([, { hasInstallScript }]) => hasInstallScript).map(([path]) => path)
  t.strictSame(scripted, unused)
})

t.test('set-up installs without scripts', async (t) => {
  t.match(read('dev/setup/install.mjs'), /'--ignore-scripts'/)
})
