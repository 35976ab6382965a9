import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { checkFront } from '../../src/kas/cli/doctor/front.ts'
import { parseKasConfig } from '../../src/kas/config/kas-config.ts'
import { findingsText } from '../../src/lib/doctor/findings.ts'
import { startKasApp } from '../support/kas-app.ts'
import { startKasApps } from './kas-apps.ts'

/** `kas doctor` knows the replicas of its own kas from those of another one, behind any front. */

const anyPort = { address: '127.0.0.1:0', listen_grace_period: '0s' }

t.test('doctor takes each replica of its kas for it, and no other kas', async (t) => {
  const replicas = await startKasApps(t, 2, { agent: `  kubernetes_api: { listen: ${JSON.stringify(anyPort)} }` })
  const folder = await mkdtemp(join(tmpdir(), 'front-check-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const startAlone = async (name: string) => {
    const socket = join(folder, name)
    const { portOf } = await startKasApp(t, {
      directory: { file: join(t.testdirName, 'directory.yaml') },
      agent: { listen: anyPort, kubernetes_api: { listen: anyPort } },
      observability: { listen: { address: '127.0.0.1:0' } },
      ops: { socket },
      cluster: { name: 'kas-0' }, // the name says nothing
    })
    return { kas: name, socket, port: portOf('Kubernetes API') }
  }
  const all = [
    ...replicas.map(({ socket, port }) => ({ kas: 'two replicas', socket, port: port('Kubernetes API') })),
    await startAlone('alone'),
    await startAlone('another'),
  ]
  for (const here of all) {
    const text = JSON.stringify({
      directory: { file: 'd.yaml' },
      agent: { kubernetes_api: {} },
      ops: { socket: here.socket },
    })
    const { config } = parseKasConfig('kas.yaml', text)
    for (const there of all) {
      const url = new URL(`http://127.0.0.1:${there.port}/`)
      const findings = await checkFront(config, { url, caFile: undefined, idleSeconds: undefined, isPre: false })
      const [first] = findings
      if (here.kas === there.kas) t.match(first, { state: 'ok', text: /: kas answers$/ }, findingsText(findings))
      else t.match(first, { state: 'failed', text: /: another kas answers$/ }, findingsText(findings))
    }
  }
})
