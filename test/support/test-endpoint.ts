import { printableIo } from '../../src/kas/cli/cli.ts'
import { type Endpoint, endpointOf } from '../../src/kas/command/endpoint.ts'
import { systemClock } from '../../src/lib/clock.ts'

/** An endpoint as from a kubeconfig. Warnings are dropped. */
export function testEndpoint(given: Pick<Endpoint, 'url' | 'agentId' | 'authorization'> & Partial<Endpoint>): Endpoint {
  return { tls: {}, named: '', clock: systemClock, warn: () => undefined, ...given }
}

/** The endpoint of a kubeconfig of kas. Warnings are dropped. */
export function kubeconfigEndpoint(file: string): Promise<Endpoint> {
  const silent = { write: () => undefined }
  const stdin = (async function* () {})()
  const io = printableIo({ env: { KUBECONFIG: file }, stdout: silent, stderr: silent, stdin })
  return endpointOf({}, { io, clock: systemClock })
}
