import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { places, type Unpacked } from './unpacked-image.ts'

/**
 * `node in-image.ts UNPACKED UID[,own][,ro] ARGS…` runs the image's entry point with ARGS, or `-- COMMAND…`, as that
 * user, by runc. The root is read-only, and there are no capabilities and no new privileges. `/tmp` is writable unless
 * the user has `,ro`. The working folder is writable; it belongs to the user with `,own`, else to the image's group.
 * The network is this machine's.
 */

const group = 65532
const [folder = '', who = '', ...args] = process.argv.slice(2)
const [user = '', ...how] = who.split(',')
const { runc, config } = JSON.parse(readFileSync(join(folder, places.about), 'utf8')) as Unpacked
const state = process.cwd()
mkdirSync(join(folder, places.bundles), { recursive: true })
const where = mkdtempSync(join(folder, places.bundles, 'kas-'))

/** other folders of files that flags name, such as a kubeconfig's: copies of their files */
const named = new Map(
  args
    .map((word) => dirname(/^--[a-z-]+=(\/.+)$/.exec(word)?.[1] ?? state))
    .filter((path) => path !== dirname(state) && path !== state && existsSync(path))
    .map((path, i) => [path, join(where, `files-${i}`)]),
)
for (const [path, copy] of named) {
  mkdirSync(copy)
  for (const entry of readdirSync(path, { withFileTypes: true }))
    if (entry.isFile()) copyFileSync(join(path, entry.name), join(copy, entry.name))
}
// as a pod's fsGroup; git checks the owner of a repository
const owner = how.includes('own') ? user : group
spawnSync('chown', ['-R', `${owner}:${group}`, state, ...named.values()])
spawnSync('chmod', ['-R', 'g+rwX', state, ...named.values()])

// tini ends with runc; without it a SIGKILL to runc would leave the container
const [tini = '', ...entrypoint] = config.Entrypoint
const own = Object.entries(process.env).filter(([name]) => !['PATH', 'HOME', 'NODE_COMPILE_CACHE'].includes(name))
const nothing = { bounding: [], effective: [], inheritable: [], permitted: [], ambient: [] }
const temporary = (destination: string, ...options: string[]) => ({
  destination,
  type: 'tmpfs',
  source: 'tmpfs',
  options: ['nosuid', ...options],
})
const bound = (destination: string, option: 'ro' | 'rw', source = destination) => ({
  destination,
  type: 'bind',
  source,
  options: ['rbind', option],
})

const bundle = {
  ociVersion: '1.0.2',
  root: { path: join(folder, places.root), readonly: true },
  hostname: 'kas',
  process: {
    terminal: false,
    user: { uid: Number(user), gid: group },
    args: [tini, '-p', 'SIGKILL', ...(args[0] === '--' ? args : [...entrypoint, ...args])],
    env: [...own.map((entry) => entry.join('=')), ...config.Env],
    cwd: state,
    capabilities: nothing,
    noNewPrivileges: true,
  },
  mounts: [
    { destination: '/proc', type: 'proc', source: 'proc' },
    temporary('/dev', 'mode=755'),
    ...(how.includes('ro') ? [] : [temporary('/tmp', 'nodev', 'mode=1777')]),
    bound('/etc/hosts', 'ro'),
    bound('/etc/resolv.conf', 'ro'),
    bound(state, 'rw'),
    ...[...named].map(([path, copy]) => bound(path, 'ro', copy)),
  ],
  linux: { namespaces: ['pid', 'ipc', 'uts', 'mount'].map((type) => ({ type })) },
}

writeFileSync(join(where, 'config.json'), JSON.stringify(bundle))
const id = `${where.split('/').at(-1)}-${process.pid}`
const words = ['runc', '--root', join(folder, places.runc), 'run', '--bundle', where, id]
process.execve?.(runc.program, words, { ...process.env, LD_LIBRARY_PATH: runc.libraries } as Record<string, string>)
