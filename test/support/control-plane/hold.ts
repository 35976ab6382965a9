/** A program for tests: starts a control plane, prints its kubeconfig, and waits to be killed. */
import { ControlPlane } from '../../../dev/control-plane/control-plane.ts'

const controlPlane = new ControlPlane({ assets: process.env.KUBEBUILDER_ASSETS ?? '', parts: 'all' })
await controlPlane.start()
console.log(`kubeconfig ${controlPlane.kubeconfig}`)
setInterval(() => undefined, 60_000)
