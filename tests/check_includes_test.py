#!/usr/bin/env python3
"""Adds sources with forbidden and allowed includes, and expects check_includes.py to tell them apart."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_includes  # noqa: E402

class planted_includes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("actors/protocol/ids.hpp", "")
        self.write("actors/protocol/defaults.hpp", "")
        self.write("actors/planner/plan.hpp", '#include "actors/protocol/ids.hpp"\n')
        self.write("actors/protocol/cluster_messages.hpp", '#include "actors/protocol/ids.hpp"\n')
        self.write("actors/scheduler/member_table.hpp", '#include "actors/protocol/cluster_messages.hpp"\n')
        self.write("actors/protocol/admission_messages.hpp", "")
        self.write("actors/attention/attention_worker.hpp", '#include "actors/engine/engine.hpp"\n')
        self.write("actors/protocol/attention_worker_actor.hpp", "")
        self.write("actors/attention/batch_policy.hpp", "struct batch_policy {};\n")
        self.write("actors/protocol/generation_messages.hpp", "")
        self.write("actors/engine/engine.hpp", '#include "actors/protocol/generation_messages.hpp"\n')
        self.write("actors/transport/caf/transport.hpp", "")
        self.write("actors/transport/wire/frame.hpp", "")
        self.write("actors/transport/fabric/fabric.hpp", '#include "actors/transport/wire/frame.hpp"\n')
        self.write("kernels/gemm.hpp", "")
        self.write("kernels/model/config.hpp", "")
        self.write("services/gateway/metrics.hpp", "")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def expect(self, source, target, allowed):
        self.write(source, f'#include "{target}"\n')
        found = list(check_includes.violations(self.root))
        (self.root / source).unlink()
        if allowed:
            self.assertEqual(found, [])
        else:
            self.assertEqual(len(found), 1, found)
            self.assertTrue(found[0].startswith(f"{source}:1: {target}: "), found[0])

    def test_what_is_there_is_allowed(self):
        self.assertEqual(list(check_includes.violations(self.root)), [])

    def test_roles_do_not_know_one_anothers_insides(self):
        for role in ("scheduler", "gateway", "expert", "cluster"):
            self.expect(f"actors/{role}/planted.cpp", "actors/attention/batch_policy.hpp", False)
        for role in ("gateway", "attention", "expert", "cluster"):
            self.expect(f"actors/{role}/planted.cpp", "actors/scheduler/member_table.hpp", False)

    def test_roles_know_the_floor_and_not_one_another(self):
        for role in ("scheduler", "gateway", "expert", "cluster"):
            for header in ("generation_messages.hpp", "attention_worker_actor.hpp"):
                self.expect(f"actors/{role}/planted.cpp", f"actors/protocol/{header}", True)
            self.expect(f"actors/{role}/planted.cpp", "actors/attention/attention_worker.hpp", False)
        self.expect("actors/protocol/planted.cpp", "actors/attention/attention_worker.hpp", False)

    def test_a_role_knows_its_own_insides(self):
        self.expect("actors/attention/planted.cpp", "actors/attention/batch_policy.hpp", True)

    def test_scheduler_and_gateway_know_no_engine(self):
        for role in ("scheduler", "gateway"):
            self.expect(f"actors/{role}/planted.cpp", "actors/engine/engine.hpp", False)
        for role in ("attention", "expert"):
            self.expect(f"actors/{role}/planted.cpp", "actors/engine/engine.hpp", True)

    def test_only_the_rebalancer_knows_the_planner(self):
        self.expect("actors/planner/planted.cpp", "actors/scheduler/member_table.hpp", False)
        self.expect("actors/rebalancer/planted.cpp", "actors/planner/plan.hpp", True)
        for role in ("scheduler", "gateway", "attention", "expert", "cluster", "engine"):
            self.expect(f"actors/{role}/planted.cpp", "actors/planner/plan.hpp", False)

    def test_kernels_are_for_engines(self):
        self.expect("actors/engine/planted.cpp", "kernels/gemm.hpp", True)
        for role in ("scheduler", "gateway", "attention", "expert", "cluster"):
            self.expect(f"actors/{role}/planted.cpp", "kernels/gemm.hpp", False)

    def test_engines_know_no_actors(self):
        self.expect("actors/engine/planted.cpp", "actors/attention/attention_worker.hpp", False)
        self.expect("actors/engine/planted.cpp", "actors/scheduler/member_table.hpp", False)
        self.expect("actors/engine/planted.cpp", "actors/protocol/generation_messages.hpp", True)

    def test_the_transport_knows_no_models_and_no_actors(self):
        for folder in ("", "wire/", "fabric/", "caf/"):
            for target in ("kernels/model/config.hpp", "actors/protocol/ids.hpp", "actors/protocol/generation_messages.hpp",
                           "actors/attention/attention_worker.hpp"):
                self.expect(f"actors/transport/{folder}planted.cpp", target, False)

    def test_the_parts_of_the_transport_look_one_way(self):
        self.expect("actors/transport/wire/planted.cpp", "actors/transport/fabric/fabric.hpp", False)
        self.expect("actors/transport/fabric/planted.cpp", "actors/transport/caf/transport.hpp", False)
        self.expect("actors/transport/caf/planted.cpp", "actors/transport/fabric/fabric.hpp", True)

    def test_nothing_points_back(self):
        for source in ("actors/planted.cpp", "actors/gateway/planted.cpp", "kernels/planted.cpp"):
            self.expect(source, "services/gateway/metrics.hpp", False)
        self.expect("kernels/planted.cpp", "kernels/model/config.hpp", False)
        self.expect("services/gateway/planted.cpp", "actors/scheduler/member_table.hpp", True)

    def test_third_party_headers_have_their_places(self):
        for name, count in (("actors/transport/wire/planted.cpp", 1), ("actors/transport/fabric/planted.cpp", 0)):
            self.write(name, "#include <ucp/api/ucp.h>\n")
            self.assertEqual(len(list(check_includes.violations(self.root))), count)
            (self.root / name).unlink()

    def test_text_and_flags_know_no_process(self):
        self.write("services/options/option_parser.hpp", "")
        for source in ("services/gateway/text", "services/client", "services/options", "services/gateway/openai"):
            self.expect(f"{source}/planted.cpp", "services/gateway/metrics.hpp", False)
        self.expect("services/client/planted.cpp", "services/options/option_parser.hpp", True)
        self.expect("load/planted.cpp", "services/options/option_parser.hpp", True)
        self.expect("load/planted.cpp", "services/gateway/metrics.hpp", False)

    def test_folders_do_not_include_one_another(self):
        self.write("services/history/a.hpp", '#include "services/scheduler/b.hpp"\n')
        self.write("services/scheduler/b.hpp", '#include "services/metrics/c.hpp"\n')
        self.write("services/metrics/c.hpp", "")
        self.assertEqual(list(check_includes.violations(self.root)), [])
        self.write("services/metrics/c.hpp", '#include "services/history/a.hpp"\n')
        self.assertEqual(list(check_includes.violations(self.root)),
                         ["folders include one another: services/history, services/metrics, services/scheduler"])

    def test_a_path_that_is_not_there_is_told(self):
        self.expect("actors/planted.cpp", "actors/nowhere.hpp", False)


if __name__ == "__main__":
    unittest.main()
