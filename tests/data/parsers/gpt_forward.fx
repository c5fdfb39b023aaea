class GraphModule(torch.nn.Module):
    def forward(
        self,
        primals_1: "f32[100, 64][64, 1]cuda:0",  # PlainAOTInput(idx=0)
        primals_2: "i64[2, 32][32, 1]cuda:0",  # PlainAOTInput(idx=1)
        primals_3: "f32[64][1]cuda:0",  # PlainAOTInput(idx=2)
        primals_4: "f32[64][1]cuda:0",  # PlainAOTInput(idx=3)
        primals_5: "f32[192, 64][64, 1]cuda:0",  # PlainAOTInput(idx=4)
        primals_6: "f32[192][1]cuda:0",  # PlainAOTInput(idx=5)
        primals_7: "f32[64, 64][64, 1]cuda:0",  # PlainAOTInput(idx=6)
        primals_8: "f32[64][1]cuda:0",  # PlainAOTInput(idx=7)
        primals_9: "f32[64][1]cuda:0",  # PlainAOTInput(idx=8)
        primals_10: "f32[64][1]cuda:0",  # PlainAOTInput(idx=9)
        primals_11: "f32[256, 64][64, 1]cuda:0",  # PlainAOTInput(idx=10)
        primals_12: "f32[256][1]cuda:0",  # PlainAOTInput(idx=11)
        primals_13: "f32[64, 256][256, 1]cuda:0",  # PlainAOTInput(idx=12)
        primals_14: "f32[64][1]cuda:0",  # PlainAOTInput(idx=13)
        primals_15: "f32[64][1]cuda:0",  # PlainAOTInput(idx=14)
        primals_16: "f32[64][1]cuda:0",  # PlainAOTInput(idx=15)
        primals_17: "f32[192, 64][64, 1]cuda:0",  # PlainAOTInput(idx=16)
        primals_18: "f32[192][1]cuda:0",  # PlainAOTInput(idx=17)
        primals_19: "f32[64, 64][64, 1]cuda:0",  # PlainAOTInput(idx=18)
        primals_20: "f32[64][1]cuda:0",  # PlainAOTInput(idx=19)
        primals_21: "f32[64][1]cuda:0",  # PlainAOTInput(idx=20)
        primals_22: "f32[64][1]cuda:0",  # PlainAOTInput(idx=21)
        primals_23: "f32[256, 64][64, 1]cuda:0",  # PlainAOTInput(idx=22)
        primals_24: "f32[256][1]cuda:0",  # PlainAOTInput(idx=23)
        primals_25: "f32[64, 256][256, 1]cuda:0",  # PlainAOTInput(idx=24)
        primals_26: "f32[64][1]cuda:0",  # PlainAOTInput(idx=25)
        primals_27: "f32[64][1]cuda:0",  # PlainAOTInput(idx=26)
        primals_28: "f32[64][1]cuda:0",  # PlainAOTInput(idx=27)
        primals_29: "f32[100, 64][64, 1]cuda:0",  # PlainAOTInput(idx=28)
    ):
        # File: /home/ada/gpt.py:52 in forward, code: x = self.wte(ids)
        embedding: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.embedding.default(primals_1, primals_2);  primals_1 = None

        # File: /home/ada/gpt.py:39 in forward, code: x = x + self.attn(self.ln_1(x))
        var_mean = torch.ops.aten.var_mean.correction(embedding, [2], correction = 0, keepdim = True)
        getitem: "f32[2, 32, 1][32, 1, 1]cuda:0" = var_mean[0]
        getitem_1: "f32[2, 32, 1][32, 1, 1]cuda:0" = var_mean[1];  var_mean = None
        add: "f32[2, 32, 1][32, 1, 1]cuda:0" = torch.ops.aten.add.Tensor(getitem, 1e-05);  getitem = None
        rsqrt: "f32[2, 32, 1][32, 1, 1]cuda:0" = torch.ops.aten.rsqrt.default(add);  add = None
        sub: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.sub.Tensor(embedding, getitem_1)
        mul: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.mul.Tensor(sub, rsqrt);  sub = None
        mul_1: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.mul.Tensor(mul, primals_3);  mul = None
        add_1: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.add.Tensor(mul_1, primals_4);  mul_1 = primals_4 = None

        # File: /home/ada/gpt.py:25 in forward, code: q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        view: "f32[64, 64][64, 1]cuda:0" = torch.ops.aten.view.default(add_1, [64, 64]);  add_1 = None
        permute: "f32[64, 192][1, 64]cuda:0" = torch.ops.aten.permute.default(primals_5, [1, 0])
        addmm: "f32[64, 192][192, 1]cuda:0" = torch.ops.aten.addmm.default(primals_6, view, permute);  primals_6 = permute = None
        view_1: "f32[2, 32, 192][6144, 192, 1]cuda:0" = torch.ops.aten.view.default(addmm, [2, 32, 192]);  addmm = None
        view_2: "f32[2, 32, 3, 4, 16][6144, 192, 64, 16, 1]cuda:0" = torch.ops.aten.view.default(view_1, [2, 32, 3, 4, 16]);  view_1 = None
        permute_1: "f32[3, 2, 4, 32, 16][64, 6144, 16, 192, 1]cuda:0" = torch.ops.aten.permute.default(view_2, [2, 0, 3, 1, 4]);  view_2 = None
        select: "f32[2, 4, 32, 16][6144, 16, 192, 1]cuda:0" = torch.ops.aten.select.int(permute_1, 0, 0)
        select_1: "f32[2, 4, 32, 16][6144, 16, 192, 1]cuda:0" = torch.ops.aten.select.int(permute_1, 0, 1)
        select_2: "f32[2, 4, 32, 16][6144, 16, 192, 1]cuda:0" = torch.ops.aten.select.int(permute_1, 0, 2);  permute_1 = None

        # File: /home/ada/gpt.py:26 in forward, code: y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        _scaled_dot_product_efficient_attention = torch.ops.aten._scaled_dot_product_efficient_attention.default(select, select_1, select_2, None, True, 0.0, True)
        getitem_2: "f32[2, 4, 32, 16][2048, 16, 64, 1]cuda:0" = _scaled_dot_product_efficient_attention[0]
        getitem_3: "f32[2, 4, 32][128, 32, 1]cuda:0" = _scaled_dot_product_efficient_attention[1]
        getitem_4: "i64[][]cuda:0" = _scaled_dot_product_efficient_attention[2]
        getitem_5: "i64[][]cuda:0" = _scaled_dot_product_efficient_attention[3];  _scaled_dot_product_efficient_attention = None

        # File: /home/ada/gpt.py:27 in forward, code: return self.proj(y.transpose(1, 2).reshape(b, t, d))
        permute_2: "f32[2, 32, 4, 16][2048, 64, 16, 1]cuda:0" = torch.ops.aten.permute.default(getitem_2, [0, 2, 1, 3])
        view_3: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.view.default(permute_2, [2, 32, 64]);  permute_2 = None
        view_4: "f32[64, 64][64, 1]cuda:0" = torch.ops.aten.view.default(view_3, [64, 64]);  view_3 = None
        permute_3: "f32[64, 64][1, 64]cuda:0" = torch.ops.aten.permute.default(primals_7, [1, 0])
        addmm_1: "f32[64, 64][64, 1]cuda:0" = torch.ops.aten.addmm.default(primals_8, view_4, permute_3);  primals_8 = view_4 = permute_3 = None
        view_5: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.view.default(addmm_1, [2, 32, 64])

        # File: /home/ada/gpt.py:39 in forward, code: x = x + self.attn(self.ln_1(x))
        add_2: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.add.Tensor(embedding, view_5);  view_5 = None

        # File: /home/ada/gpt.py:40 in forward, code: return x + self.mlp(self.ln_2(x))
        var_mean_1 = torch.ops.aten.var_mean.correction(add_2, [2], correction = 0, keepdim = True)
        getitem_6: "f32[2, 32, 1][32, 1, 1]cuda:0" = var_mean_1[0]
        getitem_7: "f32[2, 32, 1][32, 1, 1]cuda:0" = var_mean_1[1];  var_mean_1 = None
        add_3: "f32[2, 32, 1][32, 1, 1]cuda:0" = torch.ops.aten.add.Tensor(getitem_6, 1e-05);  getitem_6 = None
        rsqrt_1: "f32[2, 32, 1][32, 1, 1]cuda:0" = torch.ops.aten.rsqrt.default(add_3);  add_3 = None
        sub_1: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.sub.Tensor(add_2, getitem_7)
        mul_2: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.mul.Tensor(sub_1, rsqrt_1);  sub_1 = None
        mul_3: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.mul.Tensor(mul_2, primals_9);  mul_2 = None
        add_4: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.add.Tensor(mul_3, primals_10);  mul_3 = primals_10 = None

        # File: /home/ada/gpt.py:13 in forward, code: return self.down(F.gelu(self.up(x)))
        view_6: "f32[64, 64][64, 1]cuda:0" = torch.ops.aten.view.default(add_4, [64, 64]);  add_4 = None
        permute_4: "f32[64, 256][1, 64]cuda:0" = torch.ops.aten.permute.default(primals_11, [1, 0])
        addmm_2: "f32[64, 256][256, 1]cuda:0" = torch.ops.aten.addmm.default(primals_12, view_6, permute_4);  primals_12 = permute_4 = None
        view_7: "f32[2, 32, 256][8192, 256, 1]cuda:0" = torch.ops.aten.view.default(addmm_2, [2, 32, 256])
        mul_4: "f32[2, 32, 256][8192, 256, 1]cuda:0" = torch.ops.aten.mul.Tensor(view_7, 0.5)
        mul_5: "f32[2, 32, 256][8192, 256, 1]cuda:0" = torch.ops.aten.mul.Tensor(view_7, 0.7071067811865476);  view_7 = None
        erf: "f32[2, 32, 256][8192, 256, 1]cuda:0" = torch.ops.aten.erf.default(mul_5);  mul_5 = None
        add_5: "f32[2, 32, 256][8192, 256, 1]cuda:0" = torch.ops.aten.add.Tensor(erf, 1);  erf = None
        mul_6: "f32[2, 32, 256][8192, 256, 1]cuda:0" = torch.ops.aten.mul.Tensor(mul_4, add_5);  mul_4 = add_5 = None
        view_8: "f32[64, 256][256, 1]cuda:0" = torch.ops.aten.view.default(mul_6, [64, 256]);  mul_6 = None
        permute_5: "f32[256, 64][1, 256]cuda:0" = torch.ops.aten.permute.default(primals_13, [1, 0])
        addmm_3: "f32[64, 64][64, 1]cuda:0" = torch.ops.aten.addmm.default(primals_14, view_8, permute_5);  primals_14 = permute_5 = None
        view_9: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.view.default(addmm_3, [2, 32, 64]);  addmm_3 = None

        # File: /home/ada/gpt.py:40 in forward, code: return x + self.mlp(self.ln_2(x))
        add_6: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.add.Tensor(add_2, view_9);  add_2 = view_9 = None

        # File: /home/ada/gpt.py:39 in forward, code: x = x + self.attn(self.ln_1(x))
        var_mean_2 = torch.ops.aten.var_mean.correction(add_6, [2], correction = 0, keepdim = True)
        getitem_8: "f32[2, 32, 1][32, 1, 1]cuda:0" = var_mean_2[0]
        getitem_9: "f32[2, 32, 1][32, 1, 1]cuda:0" = var_mean_2[1];  var_mean_2 = None
        add_7: "f32[2, 32, 1][32, 1, 1]cuda:0" = torch.ops.aten.add.Tensor(getitem_8, 1e-05);  getitem_8 = None
        rsqrt_2: "f32[2, 32, 1][32, 1, 1]cuda:0" = torch.ops.aten.rsqrt.default(add_7);  add_7 = None
        sub_2: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.sub.Tensor(add_6, getitem_9);  getitem_9 = None
        mul_7: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.mul.Tensor(sub_2, rsqrt_2);  sub_2 = None
        mul_8: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.mul.Tensor(mul_7, primals_15)
        add_8: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.add.Tensor(mul_8, primals_16);  mul_8 = primals_16 = None

        # File: /home/ada/gpt.py:25 in forward, code: q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        view_10: "f32[64, 64][64, 1]cuda:0" = torch.ops.aten.view.default(add_8, [64, 64]);  add_8 = None
        permute_6: "f32[64, 192][1, 64]cuda:0" = torch.ops.aten.permute.default(primals_17, [1, 0])
        addmm_4: "f32[64, 192][192, 1]cuda:0" = torch.ops.aten.addmm.default(primals_18, view_10, permute_6);  primals_18 = permute_6 = None
        view_11: "f32[2, 32, 192][6144, 192, 1]cuda:0" = torch.ops.aten.view.default(addmm_4, [2, 32, 192]);  addmm_4 = None
        view_12: "f32[2, 32, 3, 4, 16][6144, 192, 64, 16, 1]cuda:0" = torch.ops.aten.view.default(view_11, [2, 32, 3, 4, 16]);  view_11 = None
        permute_7: "f32[3, 2, 4, 32, 16][64, 6144, 16, 192, 1]cuda:0" = torch.ops.aten.permute.default(view_12, [2, 0, 3, 1, 4]);  view_12 = None
        select_3: "f32[2, 4, 32, 16][6144, 16, 192, 1]cuda:0" = torch.ops.aten.select.int(permute_7, 0, 0)
        select_4: "f32[2, 4, 32, 16][6144, 16, 192, 1]cuda:0" = torch.ops.aten.select.int(permute_7, 0, 1)
        select_5: "f32[2, 4, 32, 16][6144, 16, 192, 1]cuda:0" = torch.ops.aten.select.int(permute_7, 0, 2);  permute_7 = None

        # File: /home/ada/gpt.py:26 in forward, code: y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        _scaled_dot_product_efficient_attention_1 = torch.ops.aten._scaled_dot_product_efficient_attention.default(select_3, select_4, select_5, None, True, 0.0, True)
        getitem_10: "f32[2, 4, 32, 16][2048, 16, 64, 1]cuda:0" = _scaled_dot_product_efficient_attention_1[0]
        getitem_11: "f32[2, 4, 32][128, 32, 1]cuda:0" = _scaled_dot_product_efficient_attention_1[1]
        getitem_12: "i64[][]cuda:0" = _scaled_dot_product_efficient_attention_1[2]
        getitem_13: "i64[][]cuda:0" = _scaled_dot_product_efficient_attention_1[3];  _scaled_dot_product_efficient_attention_1 = None

        # File: /home/ada/gpt.py:27 in forward, code: return self.proj(y.transpose(1, 2).reshape(b, t, d))
        permute_8: "f32[2, 32, 4, 16][2048, 64, 16, 1]cuda:0" = torch.ops.aten.permute.default(getitem_10, [0, 2, 1, 3])
        view_13: "f32[2, 32, 64][2048, 64, 1]cuda:0" = torch.ops.aten.view.default(permute_8, [2, 32, 64]);  permute_8 = None
        view_14: "f32[64, 64][64, 1]cuda:0" = torch.ops.aten.view.default(view_13, [64, 64]);  view_13 = None
        permute_9: "f32[64, 64][1, 64]cuda:0" = torch.ops.aten.permute.default(primals_19, [1, 0])
        addmm_5: "f32[64, 64][64, 1]cuda:0" = torch.ops.aten.addmm.default(primals_20, view_14, permute_9);  primals_20 = view_14 = permute_9 = None