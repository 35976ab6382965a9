/** The used parts of the package, by name: a bundle leaves out the rest, which is half of it. */
export { AuthorizationV1Api, CoreV1Api, DiscoveryV1Api, KubeConfig, ListWatch, Watch } from '@kubernetes/client-node'
