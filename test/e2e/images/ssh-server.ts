import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync } from 'node:fs'
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { freePorts } from '../../../dev/control-plane/free-ports.ts'
import { debianPackages } from '../../../dev/images/debian.ts'
import { userCache } from '../../../dev/images/images.ts'
import { architecture } from './unpacked-image.ts'

const run = promisify(execFile)
/** packages that are not unpacked: libc goes with the loader, which is this machine's */
const ofTheMachine = ['libc6']

export interface SshServer {
  readonly port: number
  /** a folder as `~/.ssh`: a key that the server accepts, and the server's own among known hosts */
  readonly clientFiles: string
}

/** Starts Debian's sshd, which is only unpacked, on loopback for root with a key; it ends with the test. */
export async function startSshServer(t: Test, folder: string): Promise<SshServer> {
  const packages = await debianPackages(['openssh-server'], architecture, userCache())
  const folders = packages.filter(({ name }) => !ofTheMachine.includes(name)).map(({ folder }) => folder)
  const programs = (path: string) => folders.map((one) => join(one, path)).find(existsSync) ?? path
  const libraries = globSync(folders.map((one) => join(one, '{lib,usr/lib}/*-linux-gnu')))
  const env = { PATH: process.env.PATH ?? '', LD_LIBRARY_PATH: libraries.join(':') }
  const own = join(folder, 'sshd')
  const clientFiles = join(folder, 'ssh')
  for (const one of [own, clientFiles]) await mkdir(one, { mode: 0o700 })
  const makeKey = (file: string) =>
    run(programs('usr/bin/ssh-keygen'), ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', file], { env })
  await makeKey(join(own, 'host'))
  await makeKey(join(clientFiles, 'id_ed25519'))
  await copyFile(join(clientFiles, 'id_ed25519.pub'), join(own, 'authorized_keys'))
  const [port = 0] = await freePorts(1)
  const hostKey = await readFile(join(own, 'host.pub'), 'utf8')
  await writeFile(join(clientFiles, 'known_hosts'), `[127.0.0.1]:${port} ${hostKey}`)
  const settings = [
    ...[`Port ${port}`, 'ListenAddress 127.0.0.1', `HostKey ${join(own, 'host')}`, 'PidFile none', 'UsePAM no'],
    ...[`AuthorizedKeysFile ${join(own, 'authorized_keys')}`, 'StrictModes no', 'PermitRootLogin prohibit-password'],
  ]
  await writeFile(join(own, 'config'), `${settings.join('\n')}\n`)
  // sshd drops its privileges to a user, in a folder; an installation would create both
  const users = await readFile('/etc/passwd', 'utf8')
  await writeFile(join(own, 'passwd'), `${users}sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n`)
  const place = `mount --bind ${own}/passwd /etc/passwd && mount -t tmpfs tmpfs /run && mkdir /run/sshd && chmod 755 /run /run/sshd`
  const script = `${place} && exec ${programs('usr/sbin/sshd')} -D -e -f ${join(own, 'config')}`
  const server = spawn('unshare', ['--mount', 'sh', '-c', script], { env, stdio: ['ignore', 'ignore', 'pipe'] })
  t.teardown(() => server.kill())
  const exited = once(server, 'exit')
  const said: string[] = []
  for await (const line of createInterface(server.stderr)) {
    said.push(line)
    if (/^Server listening on /.test(line)) return { port, clientFiles }
  }
  await exited
  throw new Error(`sshd has ended: ${said.join('\n')}`)
}
