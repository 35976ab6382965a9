import { existsSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { WebSocket } from 'ws'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { nodeName } from '../../dev/control-plane/simulated-kubelet.ts'
import { listeningPorts, processesWith } from '../support/control-plane/listening-ports.ts'
import { Kubectl } from '../support/kubectl.ts'
import { deployment } from '../support/kubectl-operations.ts'
import { Processes } from '../support/processes.ts'

/** The ports of a real control plane answer nothing to a page of any origin, or to another user of this machine. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = [...missingAssets(assets, 'all'), ...(existsSync(join(assets, 'kubectl')) ? [] : ['kubectl'])]
const absent = [...missing, ...(existsSync('/proc/self') ? [] : ['/proc'])]
const skip = absent.length > 0 && `needs ${absent.join(', ')}`

t.test('ports of a control plane', { skip, timeout: 120_000 }, async (t) => {
  const before = new Set(await listeningPorts([process.pid]))
  const controlPlane = new ControlPlane({ assets, parts: 'all' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const { admin, podFolder, folder } = controlPlane
  const processes = await Processes.start(t)
  const kubectl = new Kubectl({ processes, assets }, { kubeconfig: controlPlane.kubeconfig, namespace: 'default' })
  await kubectl.ok(['apply', '-f', '-'], { stdin: deployment(1) })
  await kubectl.ok(['rollout', 'status', 'deployment/web'])
  const { items } = await admin.get('/api/v1/namespaces/default/pods')
  const pod: string = items[0].metadata.name
  const container: string = items[0].spec.containers[0].name
  const programs = await processesWith(`HOME=${folder}`)
  const ports = (await listeningPorts([process.pid, ...programs])).filter((port) => !before.has(port))
  const ran = (file: string) => existsSync(join(podFolder, file))

  await t.test('whoever may exec in the API server runs commands, with its exit status', async (t) => {
    await kubectl.ok(['exec', pod, '--', 'touch', 'by-kubectl'])
    t.ok(ran('by-kubectl'))
    t.equal((await kubectl.run(['exec', pod, '--', 'sh', '-c', 'exit 7'])).code, 7)
  })

  await t.test('a WebSocket of any origin runs nothing, on no port', async (t) => {
    t.ok(ports.length >= 3, `the API server, the kubelet and what is behind it: ${ports}`)
    const names = [container, pod, nodeName, 'every-pod', 'default', '*', '..', '%00', '']
    const paths = names.flatMap((name) => [`/exec/default/${pod}/${name}`, `/exec/default/${pod}/x/${name}`])
    let tried = 0
    for (const port of ports) {
      for (const scheme of ['ws', 'wss']) {
        for (const path of paths) {
          tried++
          await dial(`${scheme}://127.0.0.1:${port}${path}?command=touch&command=by-page-${port}&output=1&error=1`)
        }
      }
    }
    t.equal(tried, ports.length * 2 * paths.length)
    await kubectl.ok(['exec', pod, '--', 'touch', 'afterwards'])
    t.same((await readdir(podFolder)).sort(), ['afterwards', 'by-kubectl'], 'and exec goes on')
  })

  await t.test('the store listens on no port', async (t) => {
    const etcd: number[] = []
    for (const pid of programs) {
      const [command = ''] = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0')
      if (command.endsWith('/etcd')) etcd.push(pid)
    }
    t.equal(etcd.length, 1)
    t.same(await listeningPorts(etcd), [])
    t.equal((await stat(folder)).mode & 0o777, 0o700, 'its sockets are in a folder that only its owner enters')
  })
})

/** Dials as a page would, and accepts any certificate. Resolves once the socket is closed. */
function dial(url: string): Promise<void> {
  return new Promise((resolve) => {
    const options = { origin: 'https://evil.example', rejectUnauthorized: false, handshakeTimeout: 2_000 }
    const socket = new WebSocket(url, ['v4.channel.k8s.io'], options)
    socket.on('error', () => undefined) // close follows
    socket.once('close', () => resolve())
  })
}
