import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { packProject } from '../../dev/installed/installation.ts'
import { parseKasConfig } from '../../src/kas/config/kas-config.ts'
import { stopPatienceMs } from '../../src/kas/config/stop-patience.ts'
import { absent } from '../support/absent.ts'
import { eventually } from '../support/eventually.ts'
import { Processes } from '../support/processes.ts'
import { patience } from '../support/slowness.ts'
import { typedLines } from '../support/typed-lines.ts'

/**
 * The steps of doc/guide/install.md with the archive, up to a running service. A systemd of its own runs them, in namespaces
 * where no folder, user or unit of this machine changes.
 */

const run = promisify(execFile)
const systemd = '/usr/lib/systemd/systemd'
/** Returns the unit file that a page shows. */
function unitOf(page: string): string {
  const text = readFileSync(join(import.meta.dirname, '../..', page), 'utf8')
  const [, indent = '', unit = ''] = /^( *)```ini\n *(\[Unit\]\n[\s\S]*?)^ *```/m.exec(text) ?? []
  return unit.replaceAll(new RegExp(`^${indent}`, 'gm'), '')
}
const unit = unitOf('doc/guide/install.md')
/** time limit beyond kas' own */
const roomMs = 10_000

/** systemd's two hierarchies without controllers: here it needs groups of processes only */
const hierarchies = ['/sys/fs/cgroup/systemd', '/sys/fs/cgroup/unified']

function lacking(): string | false {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'needs root on Linux'
  const programs = ['unshare', 'nsenter', 'ip', 'useradd', 'runuser', 'openssl', 'git', 'systemctl', 'systemd-analyze']
  const missing = [...programs.filter(absent), ...(existsSync(systemd) ? [] : ['systemd'])]
  if (missing.length > 0) return `needs ${missing.join(', ')}`
  return !hierarchies.every(existsSync) && 'needs cgroups of systemd beside those of version 1'
}

t.test('a service may take as long to stop as kas does by default', async (t) => {
  const [, seconds] = /^TimeoutStopSec=(\d+)$/m.exec(unit) ?? []
  const { config } = parseKasConfig('kas.yaml', 'directory: { file: /etc/kas/directory.yaml }\n', {})
  t.ok(
    Number(seconds) * 1000 >= stopPatienceMs(config) + roomMs,
    `${seconds} s, and kas takes ${stopPatienceMs(config)} ms`,
  )
})

t.test('the archive as a service of systemd', { skip: lacking(), timeout: patience(120_000) }, async (t) => {
  const groups = hierarchies.map((folder) => join(folder, `kas-test-${process.pid}`))
  // resolves once the last process in them has ended; some folders systemd removes itself
  const removed = async () => {
    const left = groups.filter(existsSync)
    if (left.length > 0) await run('find', [...left, '-depth', '-type', 'd', '-exec', 'rmdir', '{}', '+'])
  }
  t.teardown(() => eventually(removed))
  for (const group of groups) await mkdir(group)
  const processes = await Processes.start(t)
  const { folder } = processes
  await packProject(join(folder, 'package'))

  // systemd is the first process of its namespace; it has the targets among this machine's units
  const boot = `set -eu
for group in ${groups.join(' ')}; do echo $$ > $group/cgroup.procs; done
exec unshare --mount --pid --fork --kill-child --mount-proc --uts --ipc --net --cgroup bash -eu -c '
mount --make-rprivate /
ip link set lo up
mount -t tmpfs none /run
mkdir /run/typed /run/targets /run/upper /run/work
mount --bind ${folder} /run/typed
cp /usr/lib/systemd/system/*.target /run/targets
mount -t overlay none -o lowerdir=/etc,upperdir=/run/upper,workdir=/run/work /etc
for each in /etc/systemd/system /usr/lib/systemd/system /opt /srv /usr/local/bin /var/tmp; do mount -t tmpfs none $each; done
mv /run/targets/* /usr/lib/systemd/system
: > /usr/local/bin/node
mount --bind ${process.execPath} /usr/local/bin/node
mount -t tmpfs none /tmp
umount -R /sys/fs/cgroup
mount -t tmpfs none /sys/fs/cgroup
mkdir /sys/fs/cgroup/systemd /sys/fs/cgroup/unified
mount -t cgroup -o none,name=systemd,xattr none /sys/fs/cgroup/systemd
mount -t cgroup2 none /sys/fs/cgroup/unified
: > /run/typed/console
mount --bind /run/typed/console /dev/console
container=test exec ${systemd} --system --unit=basic.target --log-target=console --show-status=0'`
  const booted = await processes.spawn({ command: 'bash', args: ['-c', boot] })
  const first = await eventually(async () => {
    const [pid = ''] = readFileSync(`/proc/${booted.pid}/task/${booted.pid}/children`, 'utf8').split(' ')
    if (basename(readFileSync(`/proc/${pid}/comm`, 'utf8').trim()) !== 'systemd') throw new Error('it has not begun')
    return pid
  })
  /** Runs lines as a user who is logged in there. */
  const typed = async (lines: string) => {
    const args = [
      '--target',
      first,
      '--mount',
      '--pid',
      '--net',
      '--uts',
      '--ipc',
      'bash',
      '--norc',
      '-euo',
      'pipefail',
      '-c',
    ]
    const environment = { PATH: '/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root' }
    const { stdout, stderr } = await run('nsenter', [...args, `cd /run/typed\n${lines}`], { env: environment })
    return `${stdout}${stderr}`
  }
  await eventually(() => typed('systemctl is-active basic.target'))

  const lines = typedLines('guide/install.md', '## On a machine, by the archive', '## Without a network')
  const [unpacking = '', service = ''] = lines.split(/^(?=useradd )/m)
  const [asked = '', started = ''] = service.split(/^(?=systemd-analyze )/m)
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8'))
  const its = unpacking.replaceAll('/tmp/package/', '/run/typed/package/').replaceAll('0.1.0', version)
  t.match(await typed(its), new RegExp(`^kas ${version} `, 'm'))

  // the files of doc/guide/without-gitlab.md, with the other folder, and a repository that kas may read
  const files = typedLines('guide/without-gitlab.md', '## kas', '## An agentk for each cluster')
  await typed(`play=/run/typed
export KAS_DIRECTORY_FILE=$play/directory.yaml
kas agent create east --project platform/clusters --git /srv/platform.git
kas user create ada --role platform/clusters=developer > ada.token
${files.replace(/^kas --configuration-file=.*\n/m, '')}
sed -i 's#/run/typed#/etc/kas#g; /^ops:/d' kas.yaml
git init -q --bare -b main /srv/platform.git
git clone -q /srv/platform.git clone && cd clone
mkdir -p .gitlab/agents/east
printf 'user_access: { access_as: { agent: {} }, projects: [{ id: platform/clusters }] }\\n' > .gitlab/agents/east/config.yaml
git add . && git -c user.name=a -c user.email=a@localhost commit -qm a && git push -q origin HEAD:main`)
  const checked: string = await typed(asked)
  t.match(checked, /kas\.yaml: can be used/)
  t.notMatch(checked, /^FAILED/m)
  await typed('chown -R kas /srv/platform.git')
  await writeFile(join(folder, 'kas.service'), unit)
  t.match(await typed(`cp kas.service /etc/systemd/system\n${started}`), /^Created symlink \S+multi-user/)

  const isReady = async () => /, ready$/m.test(await typed('KAS_OPS_SOCKET=/run/kas/kas.sock kas status'))
  await eventually(isReady)
  const property = async (name: string) => (await typed(`systemctl show kas --property=${name} --value`)).trim()
  const main = async () =>
    typed(`cat /proc/${await property('MainPID')}/status /proc/${await property('MainPID')}/mounts`)

  await t.test("systemd takes the unit for hosts of GitLab's package too", async (t) => {
    const gitlab = unitOf('deploy/gitlab-omnibus.md')
    t.match(gitlab, /^User=git$/m)
    const verified = async (text: string) => {
      await writeFile(join(folder, 'other.service'), text)
      return typed('systemd-analyze verify other.service 2>&1 || true')
    }
    t.equal(await verified(gitlab), '')
    t.match(await verified(gitlab.replace('Restart=', 'Restarts=')), /Unknown key .*'Restarts'/)
  })

  await t.test('it has no rights, and writes nowhere but where it may', async (t) => {
    const about = await main()
    t.match(about, /^NoNewPrivs:\t1$/m)
    t.match(about, /^CapBnd:\t0+$/m)
    t.notMatch(about, /^Uid:\t0\t/m)
    t.match(about, /^\S+ \/ \S+ ro,/m)
  })

  await t.test('it reads a repository', async (t) => {
    const agents = 'kas agents --server https://localhost:8154 --ca tls.crt --token-file ada.token -o json'
    t.match(JSON.parse(await typed(agents)), { items: [{ name: 'east' }], unread: 0 })
  })

  await t.test('killed, it is started again', async (t) => {
    await typed('systemctl kill --signal=SIGKILL --kill-who=main kas')
    await eventually(async () => (await property('NRestarts')) === '1')
    t.ok(await eventually(isReady))
  })

  await t.test('stopped, it ends in order', async (t) => {
    await typed('systemctl stop kas')
    t.strictSame([await property('Result'), await property('ExecMainStatus')], ['success', '0'])
  })
})
