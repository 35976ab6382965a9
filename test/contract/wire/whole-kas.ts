import { join } from 'node:path'
import type { Test } from 'tap'
import { freePorts } from '../../../dev/control-plane/free-ports.ts'
import { App } from '../../../src/kas/app.ts'
import { parseKasConfig } from '../../../src/kas/config/kas-config.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { endpointPort } from '../../support/endpoint-port.ts'
import { GitlabDouble } from '../../support/gitlab/gitlab-double.ts'
import { suiteWorld } from '../../support/gitlab/gitlab-world.ts'

/** All of one kas, with all of its ports, and its GitLab. */
export async function startWholeKas(t: Test, configuration = '') {
  const gitlab = await GitlabDouble.start(t, { world: suiteWorld(configuration) })
  const secretFile = join(t.testdir({ secret: gitlab.secret.toString('base64') }), 'secret')
  const [gossip] = await freePorts(1)
  const listen = 'address: "127.0.0.1:0", listen_grace_period: 0s'
  const secret = `authentication_secret_file: ${secretFile}`
  const { config } = parseKasConfig(
    'kas.yaml',
    `
gitlab: { address: "${gitlab.address}", ${secret} }
agent: { listen: { ${listen} }, kubernetes_api: { listen: { ${listen} } } }
api: { listen: { ${listen}, ${secret} } }
private_api: { listen: { ${listen}, ${secret} } }
observability: { listen: { address: "127.0.0.1:0" } }
cluster: { name: kas-0, listen: { address: "127.0.0.1:${gossip}" }, discovery: { static: ["127.0.0.1:${gossip}"] } }
`,
  )
  const { log, lines } = capturedLog()
  const version = { version: '18.5.0', commit: 'test' }
  const app = new App({ log }, { config, configurationFile: 'kas.yaml', version, env: {} })
  t.teardown(() => app.stop(AbortSignal.abort()))
  await app.start()
  const portOf = (name: string) => endpointPort(lines, name)
  return { gitlab, app, portOf }
}
