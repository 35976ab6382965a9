import { join } from 'node:path'
import type { Test } from 'tap'
import { freePorts } from '../../../dev/control-plane/free-ports.ts'
import { GitlabDouble } from '../../support/gitlab/gitlab-double.ts'
import { suiteWorld } from '../../support/gitlab/gitlab-world.ts'
import { startKasApp } from '../../support/kas-app.ts'

/** Starts one whole kas with all its ports, and its GitLab. */
export async function startWholeKas(t: Test, configuration = '') {
  const gitlab = await GitlabDouble.start(t, { world: suiteWorld(configuration) })
  const secretFile = join(t.testdir({ secret: gitlab.secret.toString('base64') }), 'secret')
  const [gossip] = await freePorts(1)
  const listen = 'address: "127.0.0.1:0", listen_grace_period: 0s'
  const secret = `authentication_secret_file: ${secretFile}`
  const { app, portOf } = await startKasApp(
    t,
    `
gitlab: { address: "${gitlab.address}", ${secret} }
agent: { listen: { ${listen} }, kubernetes_api: { listen: { ${listen} } } }
api: { listen: { ${listen}, ${secret} } }
private_api: { listen: { ${listen}, ${secret} } }
observability: { listen: { address: "127.0.0.1:0" } }
cluster: { name: kas-0, listen: { address: "127.0.0.1:${gossip}" }, discovery: { static: ["127.0.0.1:${gossip}"] } }
`,
  )
  return { gitlab, app, portOf }
}
