import t from 'tap'
import { safetyOf } from '../../../src/call/safety.ts'

const request = { method: 'GET', path: '/api/v1/pods', upgrade: false, body: false }
const pod = '/api/v1/namespaces/default/pods/p'

for (const method of ['GET', 'HEAD', 'OPTIONS']) {
  t.equal(safetyOf({ ...request, method }), 'safe', method)
  t.equal(safetyOf({ ...request, method, body: true }), 'unsafe', `${method} with a body`)
  t.equal(safetyOf({ ...request, method, upgrade: true }), 'unsafe', `${method} with an Upgrade header`)
}
for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND', 'get']) {
  t.equal(safetyOf({ ...request, method }), 'unsafe', method)
}
for (const path of [
  `${pod}/exec`,
  `${pod}/exec/`,
  `${pod}/attach`,
  `${pod}/portforward`,
  `${pod}/proxy`,
  `${pod}/proxy/metrics`,
  '/api/v1/nodes/n/proxy/logs/',
  '/api/v1/namespaces/d/services/https:s:443/proxy/a/b',
  '/api/v1/proxy/nodes/n',
]) {
  t.equal(safetyOf({ ...request, path }), 'unsafe', path)
}
for (const path of [
  `${pod}/log`,
  `${pod}/executor`,
  '/api/v1/namespaces/proxy-1/pods',
  '/apis/apps/v1/deployments',
  '/',
]) {
  t.equal(safetyOf({ ...request, path }), 'safe', path)
}
